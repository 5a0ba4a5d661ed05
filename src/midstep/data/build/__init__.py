"""The builder of embedding datasets: from a table of texts to tables that can be trained on."""

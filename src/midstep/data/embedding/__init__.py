"""Embedding datasets: tables on disk, batches by gather, an order that can be resumed."""

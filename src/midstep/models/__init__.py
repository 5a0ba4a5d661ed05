"""Small models: a linear autoencoder, competitive learning, a causal language model."""

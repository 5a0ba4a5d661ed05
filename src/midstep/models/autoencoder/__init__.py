"""Autoencoders assembled from parts: encoder, latent space, decoder."""

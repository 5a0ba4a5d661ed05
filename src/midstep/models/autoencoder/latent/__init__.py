"""Latent spaces between encoder and decoder, and the statistics of their codebooks."""

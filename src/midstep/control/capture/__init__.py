"""Clones of batches, step data, losses and weights that viewers ask for."""

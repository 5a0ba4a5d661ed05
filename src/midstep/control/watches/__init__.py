"""Rows of tensors that a viewer watches, and their trajectories."""

"""State and preconditioners of optimizers."""

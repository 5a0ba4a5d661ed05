"""The steering dataset: vectors, curriculum, batches, loader."""

"""Fisher kernels: inputs, tiles, contraction, and the true step they are checked with."""

"""Benchmarks of gradients, kernels and other libraries of the kind."""

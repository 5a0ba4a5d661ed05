"""Benchmarks of datasets, loaders and mining."""

"""Benchmarks of figures."""

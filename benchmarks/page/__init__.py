"""Benchmarks of the page in a browser."""

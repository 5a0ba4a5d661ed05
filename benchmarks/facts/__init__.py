"""Benchmarks of the facts of a run, and lists of many runs."""

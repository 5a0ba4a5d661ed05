"""Benchmarks of one server with many runs or viewers."""

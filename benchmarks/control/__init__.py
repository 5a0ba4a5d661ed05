"""Benchmarks of the boundary and the debugger."""

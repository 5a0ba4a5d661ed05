"""Benchmarks of sessions, snapshots, attached loops and runtime metrics."""

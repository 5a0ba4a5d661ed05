"""Breakpoints, their conditions and expressions, and the rules of a run."""

"""Finds where NaN or infinity came from, and what changed before a stop; pure functions."""

"""Runs by id: lists, details, files, and what is read of a stored run."""

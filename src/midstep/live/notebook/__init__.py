"""Runs in a Jupyter notebook."""

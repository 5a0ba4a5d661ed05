"""Requests for a live run are forwarded to its process."""

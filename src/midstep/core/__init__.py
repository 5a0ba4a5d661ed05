"""Errors, ids, random streams, protocols, moments and the one module that writes files."""

"""The Influence page: stored results."""

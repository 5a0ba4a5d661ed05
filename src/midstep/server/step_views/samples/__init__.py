"""Samples as JSON and pictures, by kind."""

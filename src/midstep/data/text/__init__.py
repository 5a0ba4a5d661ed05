"""Texts: encoders, normal forms, text files next to a dataset."""

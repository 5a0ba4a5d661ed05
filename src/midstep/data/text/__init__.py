"""Texts: encoders, normal forms, text files beside a dataset."""

"""Triplets for retrieval: a base for datasets over a vector store, generators, judges, metrics."""

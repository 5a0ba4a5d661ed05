"""Gradients per sequence and per sample."""

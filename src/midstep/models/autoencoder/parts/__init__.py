"""Encoders and decoders, one module per family."""

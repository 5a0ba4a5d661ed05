"""`midstep train` and `midstep resume`."""

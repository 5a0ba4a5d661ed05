"""`midstep train -m` and `midstep sweep`."""

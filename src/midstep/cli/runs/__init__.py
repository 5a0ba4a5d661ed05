"""`midstep runs`: commands for stored and many runs."""

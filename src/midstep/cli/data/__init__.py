"""`midstep data`: commands for datasets."""

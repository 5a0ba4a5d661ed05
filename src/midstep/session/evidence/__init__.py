"""What is kept of a run besides its facts: what it printed, and what its stops showed."""

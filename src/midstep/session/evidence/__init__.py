"""What is kept of a run beside its facts: what it printed, and what its stops showed."""

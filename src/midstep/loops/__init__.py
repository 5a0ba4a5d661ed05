"""Training loops, each a step function and a frozen config."""

"""Many runs at once: summaries, rows, queries, curves."""

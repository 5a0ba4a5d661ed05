"""Lists of many runs: summaries, rows, queries, curves."""

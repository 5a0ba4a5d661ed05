"""Writing facts: queue, files, flush thread, recovery."""

"""Whether a run is alive: lock, lease, end state."""

"""Runtime metrics of a step: times, norms, devices."""

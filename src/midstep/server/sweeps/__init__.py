"""Run the cells of a sweep as processes, and show sweeps."""

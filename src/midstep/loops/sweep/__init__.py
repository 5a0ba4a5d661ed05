"""Sweeps: axes, the plan with one content-addressed job per cell, states and effects of cells."""

"""The built-in plot families, one module each; `handle` draws the figures of a moment."""

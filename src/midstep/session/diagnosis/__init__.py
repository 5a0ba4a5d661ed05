"""After a stop by a breakpoint: where NaN came from, and what changed in the last steps."""

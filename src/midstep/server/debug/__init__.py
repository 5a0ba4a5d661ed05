"""Commands, breakpoints and watches of one run."""

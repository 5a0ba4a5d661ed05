"""The order of samples, and the sources they come from."""

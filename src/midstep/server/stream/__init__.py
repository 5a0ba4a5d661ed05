"""Server-sent events: changes of one run, and of the list of runs."""

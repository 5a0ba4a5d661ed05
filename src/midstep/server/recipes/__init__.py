"""Start a recipe as a process, and end it."""

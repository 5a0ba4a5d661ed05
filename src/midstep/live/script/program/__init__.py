"""The process of `midstep run`, and the script in it as Python runs it."""

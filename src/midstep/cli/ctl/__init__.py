"""`midstep ctl`: commands for one live run."""

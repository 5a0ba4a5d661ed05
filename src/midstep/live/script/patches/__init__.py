"""What is changed in other libraries while a script runs, and put back afterwards."""

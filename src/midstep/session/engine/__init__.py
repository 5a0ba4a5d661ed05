"""What both drivers share: resume, hyperparameters, commands, lineage."""

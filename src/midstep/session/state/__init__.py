"""The state of a training: parts, snapshots, and how a state is walked."""

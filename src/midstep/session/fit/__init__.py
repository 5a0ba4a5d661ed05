"""The training loop of `Session.fit`."""

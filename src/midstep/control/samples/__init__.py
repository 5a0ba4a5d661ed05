"""What the samples of a batch are, and how they are shown: kinds, parts of a batch, views."""

"""Going back: the snapshot ring, the replay, and the certificate."""

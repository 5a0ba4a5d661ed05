"""The loops of the config tree, and how a session trains them."""

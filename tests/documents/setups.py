"""What a block may expect, by the words in the comment above it: `<!-- runs: with a session -->`.

Each value is the fixture in `conftest.py` that prepares the folder and gives the names.
"""

from __future__ import annotations

SETUPS = {
    "a GAN": "gan_names",
    "a classifier": "classifier_names",
    "a controller": "controller_names",
    "a live run": "live_run_names",
    "a server of stored runs": "stored_server_names",
    "a session": "session_names",
    "a steering dataset": "steering_names",
    "a table of texts": "table_names",
    "an attached run": "attached_names",
    "an influence plan": "influence_names",
    "arrays of cluster samples": "cluster_array_names",
    "cluster labels": "cluster_names",
    "competing features": "competing_names",
    "passages in a store": "passage_names",
    "stored runs": "stored_names",
    "tables of a dataset": "table_set_names",
}

"""The settings of a run: dataclasses, and how Hydra composes them."""

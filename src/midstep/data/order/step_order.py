"""`StepOrder`: the position of a loop without a loader, where an `OrderedLoader` has its own.

Such a loop is counted by `run.steps`; only the epoch of `run.epochs` around it is kept here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from midstep.core.errors import ConfigError, FormatError
from midstep.data.random_state import RandomState

_FORMAT, _POLICY = 1, "steps"


class StepOrder:
    """What a training state reads of an order, for a loop that has no loader.

    >>> order = StepOrder()
    >>> order.set_epoch(2)
    >>> StepOrder().state_dict()["epoch"], order.state_dict()["epoch"]
    (0, 2)
    """

    has_sample_ids = False
    """Its batches are recognised by their content."""
    cursor = 0
    checksum: int | None = None
    passes = 0

    def __init__(self) -> None:
        self.epoch = 0

    @property
    def problems(self) -> list[str]:
        """Nothing that the order alone makes inexact."""
        return []

    def commit(self, count: int | None = None) -> None:
        """Nothing is fetched ahead, so there is nothing to commit."""

    def refuse_or_report(self, reason: str) -> None:
        """Only a session calls it, which has a loader."""
        raise ConfigError(reason)

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch."""
        self.epoch = epoch

    def state_dict(self) -> dict[str, Any]:
        """The position as plain data."""
        return {"format": _FORMAT, "policy": _POLICY, "epoch": self.epoch, "begun": False}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go to the epoch of a state.

        Raises:
            FormatError: the state was saved with a loader.
        """
        if state.get("policy") != _POLICY:
            raise FormatError(
                f"the checkpoint has a position in a loader (policy {state.get('policy')!r}), and "
                "no loader was given to attach; give it, or begin a new run"
            )
        self.epoch = state["epoch"]

    def random_state(self) -> RandomState | None:
        """None: no pass has to be repeated."""
        return None

    def load_random_state(self, state: RandomState | None) -> None:
        """Nothing to restore."""

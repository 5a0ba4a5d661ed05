"""`StepWindow`: what the optimizers of one step did."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from midstep.live.loop.window import Window
from midstep.session.step_report import own_values

if TYPE_CHECKING:
    from midstep.live.script.pending_gradients import LossesSinceStep

MOST_NAMES = 1024
"""Bounds the memory of a script that logs under ever new names and never makes a step."""


class StepWindow:
    """One step: which optimizers stepped, with which losses, batches and scalars."""

    def __init__(self) -> None:
        self.stepped: list[int] = []
        """Ids of the optimizers, in the order of their newest steps."""
        self.losses: dict[int, Any] = {}
        """What was backpropagated for each optimizer."""
        self.rates: dict[int, Any] = {}
        """The learning rate that each used."""
        self._batches: dict[int, Window] = {}  # of each: its micro-batches, if there are any
        self._of_loader: set[int] = set()  # those whose micro-batches came from a DataLoader
        self.scalars: dict[str, Any] = {}
        """What the script logged."""

    @property
    def has_loader_batch(self) -> bool:
        """Whether one of the batches came from a DataLoader."""
        return bool(self._of_loader)

    def add_step(self, optimizer: int, since: LossesSinceStep, batches: Window) -> None:
        """An optimizer stepped after these backward passes, whose micro-batches are `batches`."""
        if optimizer in self.stepped:
            self.stepped.remove(optimizer)
        self.stepped.append(optimizer)
        value = since.total()
        if value is not None:
            self.losses[optimizer] = value
        if batches.count:
            self._batches[optimizer] = batches
        if since.has_loader_batch:
            self._of_loader.add(optimizer)

    def add_scalars(self, values: Mapping[str, Any]) -> None:
        """The script logged these in this step."""
        if len(self.scalars) < MOST_NAMES:
            self.scalars.update(own_values(values))

    def batches(self, main: int) -> Window:
        """The micro-batches of the main optimizer, or else of the first; of a loader if any is."""
        keys = sorted(self._batches, key=lambda key: (key not in self._of_loader, key != main))
        return self._batches[keys[0]] if keys else Window()

    def loss(self, main: int) -> Any:
        """The loss of the main optimizer; None if it has made no step here.

        One backward pass may serve several optimizers, and counts for the first that steps.
        """
        if main not in self.stepped or main in self.losses:
            return self.losses.get(main)
        values = list(self.losses.values())
        return sum(values[1:], start=values[0]) if values else None

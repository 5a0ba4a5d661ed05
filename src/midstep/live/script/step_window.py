"""`StepWindow`: what the optimizers of one step did."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from midstep.live.loop.window import Window
from midstep.session.step_report import own_values

if TYPE_CHECKING:
    from midstep.live.script.backpropagated import Backpropagated

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
        self.batches = Window()
        self.scalars: dict[str, Any] = {}
        """What the script logged."""
        self.has_loader_batch = False
        """Whether one of the batches came from a DataLoader."""

    def add_step(self, optimizer: int, since: Backpropagated) -> None:
        """An optimizer stepped after these backward passes."""
        if optimizer in self.stepped:
            self.stepped.remove(optimizer)
        self.stepped.append(optimizer)
        value = since.total()
        if value is not None:
            self.losses[optimizer] = value
        if not self.batches.count or (since.has_loader_batch and not self.has_loader_batch):
            self.batches = since.batches
        self.has_loader_batch |= since.has_loader_batch

    def add_scalars(self, values: Mapping[str, Any]) -> None:
        """The script logged these in this step."""
        if len(self.scalars) < MOST_NAMES:
            self.scalars.update(own_values(values))

    def loss(self, main: int) -> Any:
        """The loss of the main optimizer, or of all that have one; None without any."""
        if main in self.losses:
            return self.losses[main]
        values = list(self.losses.values())
        return sum(values[1:], start=values[0]) if values else None

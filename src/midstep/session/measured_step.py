"""One measured step: its values on their way from the device, and what measuring it cost."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from midstep.session.spent import Spent

__all__ = ["MeasuredStep", "sent"]

_UNTOLD = ("accuracy", "host_memory_mib")
"""Of these NaN stands for what could not be told."""


@dataclass(kw_only=True)
class MeasuredStep:
    """What was found in one step; complete once `is_ready`."""

    step: int
    """Finished optimizer steps."""
    names: tuple[str, ...]
    values: torch.Tensor
    """[N], in the order of the names."""
    arrived: Any
    """A CUDA event; None if the values are there."""
    known: Mapping[str, float]
    """What needed no device."""
    spent: Spent
    longer_s: float = 0.0
    """By how much it took longer than others, with what was done before and behind it."""
    next_s: float | None = None
    """What the step after it took; None while nobody knows, or if that was measured, too."""

    def is_ready(self) -> bool:
        """Whether the values are here; nobody waits for them."""
        return self.arrived is None or (self.arrived.query() and self.spent.is_ready())

    def cost_s(self, usual_s: float | None) -> float:
        """What it took: by its stopwatch or as a longer step, and as a longer one after it.

        Args:
            usual_s: what a step takes that is not measured, nor follows one.
        """
        left_behind = 0.0
        if self.next_s is not None and usual_s is not None:
            left_behind = max(0.0, self.next_s - usual_s)
        return max(self.spent.seconds(), self.longer_s) + left_behind

    def scalars(self) -> dict[str, float]:
        """Everything that is a number."""
        found = dict(zip(self.names, self.values.tolist(), strict=True))
        return {
            name: value
            for name, value in {**found, **self.known}.items()
            if not (math.isnan(value) and name in _UNTOLD)
        }


def sent(values: Sequence[torch.Tensor], device: torch.device) -> tuple[torch.Tensor, Any]:
    """The values as one tensor of the host, and the event of its arrival; None: it is there."""
    if not values:
        return torch.empty(0), None
    together = torch.stack([each.to(device, torch.float32, non_blocking=True) for each in values])
    if device.type != "cuda":
        return together.cpu(), None
    host = torch.empty(len(values), pin_memory=True)
    host.copy_(together, non_blocking=True)
    event: Any = torch.cuda.Event()  # type: ignore[no-untyped-call]
    event.record()
    return host, event

"""The user's objects, as they were given to `attach`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn
    from torch.optim import Optimizer

__all__ = ["AttachedParts"]


@dataclass(frozen=True)
class AttachedParts:
    """Let go of when the block ends."""

    model: nn.Module
    optimizers: list[Optimizer]
    """The first is the clock."""
    loader: Any
    declared: dict[str, Any]
    """scheduler, scaler and loss_fn; None where they were not given."""

    def describe(self) -> dict[str, Any]:
        """What was attached, for the header record."""
        return {
            "model": type(self.model).__name__,
            "parameters": sum(p.numel() for p in self.model.parameters()),
            "optimizers": [type(optimizer).__name__ for optimizer in self.optimizers],
            "batch_size": getattr(self.loader, "batch_size", None),
            "workers": getattr(self.loader, "num_workers", None),
            **{key: type(part).__name__ for key, part in self.declared.items() if part is not None},
        }

    def data_fingerprint(self) -> dict[str, Any] | None:
        """Class, length and own fingerprint of the dataset; no sample is read for it."""
        dataset = getattr(self.loader, "dataset", None)
        if dataset is None:
            return None
        return {
            "class": type(dataset).__qualname__,
            "length": _asked(dataset, "__len__"),
            "own": _asked(dataset, "fingerprint"),
        }


def _asked(dataset: Any, method: str) -> Any:
    """What a method of the dataset says; None where it has none, or that raises."""
    ask = getattr(dataset, method, None)
    try:
        return ask() if callable(ask) else None
    except Exception:  # noqa: BLE001 - somebody's own code; a record that lacks it is still one
        return None

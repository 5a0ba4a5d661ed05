"""One name for each quantity: whatever a loop calls it, charts and breakpoints find it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["CANONICAL", "canonical_name", "fold_names"]

CANONICAL: Mapping[str, str] = {
    "acc": "accuracy",
    "top1": "accuracy",
    "val_acc": "val_accuracy",
    "val_top1": "val_accuracy",
    "test_acc": "test_accuracy",
    "test_top1": "test_accuracy",
    "learning_rate": "lr",
    "gradient_norm": "grad_norm",
    "tokens_per_sec": "throughput",
}
"""Names that loops use, and the one that they are kept under."""


def canonical_name(name: str) -> str:
    """The name under which a scalar is kept.

    >>> canonical_name("learning_rate"), canonical_name("loss")
    ('lr', 'loss')
    """
    return CANONICAL.get(name, name)


def fold_names(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """`values` under canonical names; one that is given under its canonical name stays.

    >>> fold_names({"acc": 0.5, "loss": 1.0})
    {'accuracy': 0.5, 'loss': 1.0}
    """
    if CANONICAL.keys().isdisjoint(values):
        return values
    return {CANONICAL.get(name, name): value for name, value in values.items()} | {
        name: value for name, value in values.items() if name not in CANONICAL
    }

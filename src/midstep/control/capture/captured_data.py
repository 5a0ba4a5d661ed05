"""Clones of batches and step data, which readers may hold while the training continues."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import FunctionType, MethodType
from typing import Any

from midstep.control.capture.deferred_columns import DeferredColumns
from midstep.control.panels import Panel

MAX_DEPTH = 16
"""Containers nested deeper than this are not cloned, so that a clone always ends."""


@dataclass(frozen=True, kw_only=True)
class CapturedBatch:
    """The batch of one step, with its loss, labels and sample ids."""

    step: int
    """Index of the step, counted from 0: finished steps minus one."""
    batch: Any
    """Tensor, mapping or sequence of tensors."""
    loss: Any
    """As the loop gave it; a float in a clone."""
    labels: Any = None
    """One per sample, or a function that returns them; it is called when the batch is cloned."""
    losses: Any = None
    """Per-sample losses, if the loop has them."""
    sample_ids: Any = None

    def clone(self) -> CapturedBatch:
        """A copy that shares no memory with the loop."""
        return CapturedBatch(
            step=self.step,
            batch=clone_or_reason(self.batch),
            loss=as_float(self.loss),
            labels=clone_or_reason(resolve(self.labels)),
            losses=clone_or_reason(self.losses),
            sample_ids=clone_or_reason(self.sample_ids),
        )


@dataclass(frozen=True, kw_only=True)
class StepData:
    """The data that hooks pushed during one step."""

    step: int
    """Finished steps after that step."""
    values: Mapping[str, Any]
    panels: Mapping[str, Panel] = field(default_factory=dict)
    """How to show them, by key, for those that have a panel."""
    additions: int = 0
    """How many times a command added or replaced an entry while the run was paused."""


def clone(value: Any) -> Any:
    """`value` with every tensor in it detached and cloned, containers rebuilt.

    A container that contains itself, or occurs twice, is rebuilt once. Other objects, and what is
    nested deeper than 16 levels, are returned as they are.
    """
    return _clone(value, {}, 0)


def _clone(value: Any, copies: dict[int, tuple[Any, Any]], depth: int) -> Any:
    """Clone, with the containers rebuilt so far in `copies`: id -> (original, copy)."""
    # The original is kept in the pair, so that its id is not given to another object meanwhile.
    # By methods, not by type: `control` works without torch and numpy.
    if hasattr(value, "detach") and hasattr(value, "clone"):
        return value.detach().clone()
    if isinstance(value, DeferredColumns):
        return value.clone_inputs(clone)
    if hasattr(value, "__array__") and hasattr(value, "copy"):
        return value.copy()
    if depth >= MAX_DEPTH or not isinstance(value, Mapping | list | tuple):
        return value
    if id(value) in copies:
        return copies[id(value)][1]
    if isinstance(value, tuple):
        items = [_clone(item, copies, depth + 1) for item in value]
        return value._make(items) if hasattr(value, "_make") else tuple(items)
    copy: Any = {} if isinstance(value, Mapping) else []
    copies[id(value)] = (value, copy)
    if isinstance(value, Mapping):
        copy.update((key, _clone(item, copies, depth + 1)) for key, item in value.items())
    else:
        copy.extend(_clone(item, copies, depth + 1) for item in value)
    return copy


def clone_or_reason(value: Any) -> Any:
    """A clone; or a line of text that says why there is none."""
    try:
        return clone(value)
    except Exception as error:  # noqa: BLE001 - out of memory, or a type of the user: training continues
        return f"<cannot be copied: {type(error).__name__}: {str(error)[:200]}>"


def resolve(data: Any) -> Any:
    """Step data itself, or the result of a function that was pushed instead of it."""
    # Not `callable`: modules and other callable objects are data.
    if not isinstance(data, FunctionType | MethodType | partial):
        return data
    try:
        return data()
    except Exception as error:  # noqa: BLE001 - a function of the user: training continues
        return f"<cannot be computed: {type(error).__name__}: {str(error)[:200]}>"


def as_float(value: Any) -> float | None:
    """A number or a one-element tensor as a float; None for anything else.

    On a GPU this waits for the device.
    """
    try:
        if isinstance(value, int | float):
            return float(value)
        count = value.numel() if hasattr(value, "numel") else getattr(value, "size", 1)
        return float(value.item()) if hasattr(value, "item") and count == 1 else None
    except (TypeError, ValueError, OverflowError, RuntimeError):
        return None  # complex, text, an integer larger than any float, a tensor on `meta`


def is_on_device(value: Any) -> bool:
    """Whether reading `value` waits for a device."""
    return getattr(getattr(value, "device", None), "type", "cpu") != "cpu"


def as_ids(value: Any) -> Sequence[int] | None:
    """Sample ids as integers; None if they are not integers."""
    if value is None:
        return None
    flat = value.tolist() if hasattr(value, "tolist") else value
    try:
        return [int(item) for item in flat]
    except (TypeError, ValueError, OverflowError):
        return None

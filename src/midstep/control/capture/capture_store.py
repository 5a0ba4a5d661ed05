"""Clones of batches and step data, which readers may hold while the training continues."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import FunctionType, MethodType
from typing import Any

from midstep.control.capture.deferred_columns import DeferredColumns
from midstep.control.panels import Panel
from midstep.core.errors import ConfigError

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


RESERVED_KEYS = frozenset({"keys", "force_detail"})
"""Keys that are routes of the server beside the step data."""
RUNNING_INTERVAL_S = 0.1
"""While running, a step is cloned at most ten times a second for the viewers."""


class CaptureStore:
    """The last batch and the step data. Written by the training thread, read by any thread.

    Readers need no lock: each object is built completely and then published by one assignment.
    What is published is never changed afterwards.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._cloned_at = -1.0
        self.clones_step = False
        """Whether the step in progress is cloned as it is captured."""
        self.batch: CapturedBatch | None = None
        self.held_batch: CapturedBatch | None = None
        """A reference to this step's batch; it is cloned only if the loop parks after the step."""
        self.step_data: dict[str, Any] = {}
        self.panels: dict[str, Panel] = {}
        """Panels of this step's data, by key."""
        self._uncloned_keys: set[str] = set()
        """Keys whose data is still the object that the caller pushed, not a clone."""
        self.shown = StepData(step=0, values={})
        """The last step data that was published for readers."""

    def take_batch(self, batch: CapturedBatch) -> None:
        """Clone `batch` if this step is shown; else hold a reference until the next step begins."""
        # Cloned here and not at the boundary: a loop may write into the batch before it gets there.
        if self.clones_step:
            self.batch, self.held_batch = batch.clone(), None
        else:
            self.held_batch = batch

    def push(self, key: str, data: Any, panel: Panel | None = None) -> None:
        """Store `data` of this step, and the panel that shows it."""
        if not isinstance(key, str) or not key or key in RESERVED_KEYS:
            raise ConfigError(
                f"a key of step data is text and not {' or '.join(sorted(RESERVED_KEYS))}; "
                f"got {key!r}. Choose another name."
            )
        self._set_panel(key, panel)
        if self.clones_step:
            self.step_data[key] = clone_or_reason(resolve(data))
            self._uncloned_keys.discard(key)
        else:
            self.step_data[key] = data
            self._uncloned_keys.add(key)

    def _set_panel(self, key: str, panel: Panel | None) -> None:
        if isinstance(panel, Panel):
            self.panels[key] = panel
        elif panel is None:
            self.panels.pop(key, None)
        else:
            raise ConfigError(f"panel must be a midstep.Panel, got {type(panel).__name__}")

    def batch_of(self, index: int) -> CapturedBatch | None:
        """The batch of step `index`, held or cloned."""
        for batch in (self.held_batch, self.batch):
            if batch is not None and batch.step == index:
                return batch
        return None

    def forget_after(self, step: int) -> None:
        """Drop what was captured after `step`: the loop went back to another timeline."""
        self.held_batch = None
        if self.batch is not None and self.batch.step >= step:
            self.batch = None
        if self.shown.step > step:
            self.shown = StepData(step=0, values={})
        self.step_data, self.panels, self._uncloned_keys = {}, {}, set()

    def step_ended(self, step: int) -> None:
        """Publish this step if it was cloned."""
        if self.clones_step:
            self.publish(step)

    def publish(self, step: int) -> None:
        """Publish this step in any case; what was only held by reference is cloned now."""
        if self.held_batch is not None:
            self.batch, self.held_batch = self.held_batch.clone(), None
        self._publish_step_data(step)

    def _publish_step_data(self, step: int, *, additions: int = 0) -> None:
        """Publish this step's data; entries that are not clones yet are cloned now."""
        # Without data of its own a step leaves the last published data in place.
        if not self.step_data or self.shown.values is self.step_data:
            return
        if self._uncloned_keys:
            self.step_data = {
                key: clone_or_reason(resolve(data)) if key in self._uncloned_keys else data
                for key, data in self.step_data.items()
            }
            self._uncloned_keys = set()
        self.shown = StepData(
            step=step, values=self.step_data, panels=self.panels, additions=additions
        )

    def add_to_shown(self, key: str, data: Any, panel: Panel | None, step: int) -> None:
        """Add `data` to the published data of the step at which the loop is parked."""
        # New dicts, because readers hold the published ones.
        # The count tells viewers of a paused run that a key has new data.
        before = self.shown.additions if self.shown.step == step else 0
        self.step_data, self.panels = dict(self.step_data), dict(self.panels)
        self.push(key, data, panel)
        self._publish_step_data(step, additions=before + 1)

    def step_begins(self, *, every_step: bool, viewers: bool) -> None:
        """Clear the last step's data and decide whether the next step is cloned.

        Args:
            every_step: whether it is cloned in any case, as while stepping.
            viewers: whether viewers are connected; then ten steps a second are cloned.
        """
        self.held_batch = None
        if self.step_data:  # replaced, not cleared: the old dicts may be published
            self.step_data, self.panels, self._uncloned_keys = {}, {}, set()
        self.clones_step = every_step
        if viewers and not every_step:
            now = self._clock()
            # Clones take time of the training, and the page draws five times a second.
            if now - self._cloned_at >= RUNNING_INTERVAL_S:
                self.clones_step, self._cloned_at = True, now

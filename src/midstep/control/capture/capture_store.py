"""Clones of batches and step data: what a reader may hold while training goes on."""

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


@dataclass(frozen=True, kw_only=True)
class CapturedBatch:
    """A batch as it was when the gradient was taken."""

    step: int
    """Index of the batch: finished steps minus one."""
    batch: Any
    """Tensor, mapping or sequence of tensors."""
    loss: Any
    """A float once cloned; before that what the loop gave."""
    labels: Any = None
    """Or a function that gives them, called once they are cloned."""
    losses: Any = None
    """Per-sample losses, where the loop knows them."""
    sample_ids: Any = None

    def clone(self) -> CapturedBatch:
        """The same with tensors of its own."""
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
    """What hooks pushed during one step."""

    step: int
    """Finished steps once that step had ended."""
    values: Mapping[str, Any]
    panels: Mapping[str, Panel] = field(default_factory=dict)
    """How they want to be shown, by key, where a hook said so."""
    additions: int = 0
    """How many entries commands put beside it, also under a key that was there already."""


def clone(value: Any) -> Any:
    """`value` with every tensor in it detached and cloned, containers rebuilt.

    A container that holds itself, or is held twice, is rebuilt once. Anything that is neither
    tensor, array, mapping nor sequence is passed on as it stands, and so is what lies deeper
    than 16 levels.
    """
    return _clone(value, {}, 0)


def _clone(value: Any, copies: dict[int, tuple[Any, Any]], depth: int) -> Any:
    """`made` holds, by identity, the containers rebuilt so far beside the originals."""
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
    """A clone, or in its place a line that says why there is none."""
    try:
        return clone(value)
    except Exception as error:  # noqa: BLE001 - no memory, or a type of the user's: training goes on
        return f"<cannot be copied: {type(error).__name__}: {str(error)[:200]}>"


def resolve(data: Any) -> Any:
    """Step data itself; a function pushed in its place is called for it."""
    if not isinstance(data, FunctionType | MethodType | partial):
        return data
    try:
        return data()
    except Exception as error:  # noqa: BLE001 - a function of the user's: training goes on
        return f"<cannot be computed: {type(error).__name__}: {str(error)[:200]}>"


def as_float(value: Any) -> float | None:
    """A number or a one-element tensor as a float; None for anything else.

    On a GPU this waits for the device.
    """
    try:
        if isinstance(value, int | float):
            return float(value)
        if hasattr(value, "item") and _elements(value) == 1:
            return float(value.item())
    except (TypeError, ValueError, OverflowError, RuntimeError):
        return None  # complex, text, an integer beyond all floats, a tensor without values
    return None


def _elements(value: Any) -> int:
    return int(value.numel() if hasattr(value, "numel") else getattr(value, "size", 1))


def is_on_device(value: Any) -> bool:
    """Whether reading `value` waits for a device."""
    return getattr(getattr(value, "device", None), "type", "cpu") != "cpu"


def as_ids(value: Any) -> Sequence[int] | None:
    """Sample ids as plain integers; None where they are none."""
    if value is None:
        return None
    flat = value.tolist() if hasattr(value, "tolist") else value
    try:
        return [int(item) for item in flat]
    except (TypeError, ValueError, OverflowError):
        return None


RESERVED_KEYS = frozenset({"keys", "force_detail"})
RUNNING_INTERVAL_S = 0.1


class CaptureStore:
    """The last batch and the step data. Filled by the training thread, read by anybody.

    Readers see whole objects only: each is built first and then put in place by one
    assignment, so that no lock stands between the step and its readers.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._cloned_at = -1.0
        self.clones_step = False
        """Whether this step is to be cloned."""
        self.batch: CapturedBatch | None = None
        self.held_batch: CapturedBatch | None = None
        """A reference to this step's batch, cloned only if the loop parks here."""
        self.step_data: dict[str, Any] = {}
        self.panels: dict[str, Panel] = {}
        """Hints that came with this step's data, by key."""
        self._uncloned_keys: set[str] = set()
        """Keys whose data is still the caller's own, pushed when nobody wanted a clone."""
        self.shown = StepData(step=0, values={})
        """The last complete step data that was cloned for readers."""

    def take_batch(self, batch: CapturedBatch, *, clone_later: bool = False) -> None:
        """Clone `batch` if this step is wanted, else hold a reference until the next begins.

        One that is kept as it is by others can be held up to the boundary in any case.
        """
        if self.clones_step and not clone_later:
            self.batch, self.held_batch = batch.clone(), None
        else:
            self.held_batch = batch

    def push(self, key: str, data: Any, panel: Panel | None = None) -> None:
        """Store `data` for this step, with how it wants to be shown."""
        if not isinstance(key, str) or not key or key in RESERVED_KEYS:
            raise ConfigError(
                f"step data needs a name other than {', '.join(sorted(RESERVED_KEYS))}; got {key!r}"
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
        """The loop stands at `step` again: what came behind it is of another timeline."""
        self.held_batch = None
        if self.batch is not None and self.batch.step >= step:
            self.batch = None
        if self.shown.step > step:
            self.shown = StepData(step=0, values={})
        self.step_data, self.panels, self._uncloned_keys = {}, {}, set()

    def step_ended(self, step: int) -> None:
        """Publish what this step pushed, when somebody wanted it."""
        if self.clones_step:
            self.publish(step)

    def publish(self, step: int) -> None:
        """The loop stands here: clone what was only held, so that it can be looked at."""
        if self.held_batch is not None:
            self.batch, self.held_batch = self.held_batch.clone(), None
        self._publish_step_data(step)

    def _publish_step_data(self, step: int, *, additions: int = 0) -> None:
        """Put this step's data before the readers; what was pushed unwanted is cloned now."""
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
        """Put `data` beside what is shown of the step that the loop stands at, at once.

        The entries are made anew, since readers hold the ones before.
        """
        before = self.shown.additions if self.shown.step == step else 0
        self.step_data, self.panels = dict(self.step_data), dict(self.panels)
        self.push(key, data, panel)
        self._publish_step_data(step, additions=before + 1)

    def step_begins(self, *, every_step: bool, viewers: bool) -> None:
        """Clear the last step's data and decide whether the next one is cloned."""
        self.held_batch = None
        if self.step_data:
            self.step_data, self.panels, self._uncloned_keys = {}, {}, set()
        self.clones_step = every_step
        if viewers and not every_step:
            now = self._clock()
            if now - self._cloned_at >= RUNNING_INTERVAL_S:
                self.clones_step, self._cloned_at = True, now

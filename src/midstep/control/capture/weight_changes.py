"""The change of weights by one step: clones from before and after, of the tensors in view.

The boundary takes the clones, so every loop has them without code of its own: `before` is the
tensor as the loop left one boundary, `after` as it reached the next. If something else than the
optimizer moves a tensor, the loop pushes that part as step data and names its keys in
`declare_extra_update`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from midstep.control.capture.host_copy import Ready, TensorCopies, capture_context
from midstep.control.capture.subscriptions import Need
from midstep.control.control_state import ControlState
from midstep.control.watches.tensor_rows import find_entry, is_tensor
from midstep.core.errors import ConfigError, ControlError

RUNNING_BYTES = 4 * 2**20
"""Limit of clones in a step that is shown only if a breakpoint stops the loop after it."""
SHOWN_BYTES = 32 * 2**20
"""Limit of clones in one of the ten steps a second that are shown while running."""
PARKED_BYTES = 256 * 2**20
"""Limit of clones in a step that was requested, and while the loop is parked."""
POLL_S = 0.1


@dataclass(frozen=True, kw_only=True)
class ExtraUpdate:
    """Keys of the step data in which a loop shows what moves a tensor besides the optimizer.

    `key.name` is the entry `name` of a mapping that is pushed under `key`.
    """

    delta_key: str | None = None
    """The part of each step's change that is not the optimizer's, of the tensor's shape."""
    target_key: str | None = None
    """Where that part pulls the rows to, of the tensor's shape."""
    metrics_key: str | None = None
    """A mapping of columns with one value per row."""


@dataclass(frozen=True, kw_only=True, eq=False)
class WeightChange:
    """One tensor around one step. All tensors are clones, so any thread may read them."""

    step: int
    """Finished steps after it."""
    source: str
    before: Any
    """None if the run was not observed when the step began."""
    after: Any
    extra_delta: Any = None
    """The part of the change that is not the optimizer's, if the loop pushed one."""
    extra_target: Any = None
    """Where that part pulls the rows to, if the loop pushed it."""
    target_key: str | None = None
    """The name of that in the step data, if the loop declared one."""
    metrics: Mapping[str, Any] = field(default_factory=dict)
    """Columns about the rows."""
    note: str | None = None
    """What a reader should know about it."""


@dataclass(frozen=True, kw_only=True, eq=False)
class _StepRecord:
    """All clones of one step; replaced as a whole, so that readers need no lock."""

    step: int
    before: dict[str, Any] = field(default_factory=dict)
    after: dict[str, Any] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)
    ready: tuple[Ready, ...] = ()
    """What a reader must wait for."""


class WeightChanges:
    """Clones tensors at the boundary on the training thread, and gives them to other threads."""

    def __init__(self, state: ControlState) -> None:
        self._state = state
        self._extra_updates: dict[str, ExtraUpdate] = {}
        self._copies = TensorCopies()
        self._refusals: dict[str, str] = {}
        """Why a tensor was not cloned the last time."""
        self._before: dict[str, Any] = {}
        self._before_step = -1
        self._record: _StepRecord | None = None
        self._last_with_before: _StepRecord | None = None
        """The last record with `before`: the loop may park after a later step without it."""
        self.has_waiting_reader = False
        """Whether a reader waits for a tensor that a parked loop has not cloned yet."""

    # -- the training thread's side ---------------------------------------------------------------

    def begin(self, *, is_requested: bool) -> None:
        """Clone the weights before a step, if the step may be shown.

        Args:
            is_requested: whether the step was requested (`step`, `run_until`). Then every tensor is
                cloned, and more memory may be used: nothing is timed.
        """
        state = self._state
        # Clones from before a step that was not shown: no reader has them, so their memory is
        # written over. A new allocation in every shown step would be slower.
        reusable, self._before = self._before, {}
        is_shown = bool(state.captures.plan.tensors)
        if not (is_requested or is_shown or state.breakpoints.may_stop_step):
            if state.holds_weights:
                self._drop_unless_in_view()
            return
        running_bytes = SHOWN_BYTES if is_shown else RUNNING_BYTES
        self._before = self._clone_sources(
            self._names_before(everything=is_requested),
            PARKED_BYTES if is_requested else running_bytes,
            reusable,
        )
        self._before_step, state.holds_weights = state.finished_steps, True

    def _drop_unless_in_view(self) -> None:
        """Free all clones when none is in view any more, so that the boundary is cheap again."""
        state = self._state
        with state.lock:
            if not state.captures.subscriptions.tensors():
                self._record = self._last_with_before = None
                state.holds_weights = False
                state.refresh_flags()

    def end(self, *, is_parking: bool = False) -> None:
        """Clone the same tensors again after a step that shows them.

        Args:
            is_parking: whether the loop parks here. Then the step is recorded in any case.
        """
        state, plan = self._state, self._state.captures.plan
        if not (is_parking or plan.everything or plan.tensors):
            return
        # Called at the end of a shown step and once more if the loop parks there.
        if self._record is not None and self._record.step == state.finished_steps:
            return
        before, self._before = self._before, {}
        # After going back, `before` belongs to a step of the other timeline.
        if self._before_step != state.finished_steps - 1:
            before = {}
        self._before_step = -1
        # The same names as before: for another tensor there is no change to show. Views of the
        # weights alone need no clone from before the step.
        shown = [need for need in state.captures.plan.tensors if need.kind == "weights"]
        after = self._clone_sources([*before, *self._names_of(shown)], PARKED_BYTES)
        record = _StepRecord(
            step=state.finished_steps,
            before=before,
            after=after,
            values=self._shown_values(),
            ready=(*self._take_ready(), *self._data_ready()),
        )
        if before:
            self._last_with_before = record
        self._publish(record)

    def forget_after(self, step: int) -> None:
        """Drop the record of a later step: the loop went back, and it is of another timeline."""
        if self._last_with_before is not None and self._last_with_before.step > step:
            self._last_with_before = None

    def serve(self) -> None:
        """Clone what a reader waits for, while the loop is parked."""
        state = self._state
        if not (self.has_waiting_reader and state.is_parked):
            return
        self.has_waiting_reader = False
        record = self._record
        if record is None or record.step != state.finished_steps:
            record = _StepRecord(step=state.finished_steps, values=self._shown_values())
        with state.lock:
            needs = state.captures.subscriptions.tensors()
        missing = [name for name in self._names_of(needs) if name not in record.after]
        after = {**record.after, **self._clone_sources(missing, PARKED_BYTES)}
        self._publish(replace(record, after=after, ready=(*record.ready, *self._take_ready())))

    def _publish(self, record: _StepRecord) -> None:
        with self._state.lock:
            self._record, self._state.holds_weights = record, True
            self._state.changed.notify_all()  # readers wait for it in `_wait_for_record`

    def _shown_values(self) -> Mapping[str, Any]:
        """This step's data, as far as it was captured."""
        return self._state.captures.data.published.of_step(self._state.finished_steps)

    def _data_ready(self) -> Iterable[Ready]:
        origins = self._state.captures.data.published.origins.values()
        return [origin.ready for origin in origins if origin.ready is not None]

    def _names_before(self, *, everything: bool) -> list[str]:
        """Which tensors to clone before a step, by importance: the budget may not allow all."""
        state, plan = self._state, self._state.captures.plan
        if plan.tensors and not (everything or state.breakpoints.may_stop_step):
            return self._names_of(need for need in plan.tensors if need.kind != "weights")
        with state.lock:
            needs = state.captures.subscriptions.tensors()
            default = state.watches.default_source
            rest = list(state.watches.readers) if everything else []
        named = [] if default is None else [default]
        return list(dict.fromkeys([*self._names_of(needs), *self._extra_updates, *named, *rest]))

    def _names_of(self, needs: Iterable[Need]) -> list[str]:
        """The tensors that these needs name, each once."""
        names = [self._default_name() if need.key is None else need.key for need in needs]
        return list(dict.fromkeys(name for name in names if name is not None))

    def _default_name(self) -> str | None:
        return next(iter(self.sources), None)

    def _take_ready(self) -> tuple[Ready, ...]:
        """What readers of the clones so far must wait for: a GPU may not have made them yet."""
        ready = self._copies.take()
        return () if ready is None else (ready,)

    def _clone_sources(
        self, names: Iterable[str], budget_bytes: int, reusable: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Clone each tensor that has rows, within the budget, and note why others are not."""
        sources = self._state.watches.readers
        with capture_context():
            clones, refusals = clone_within_budget(sources, names, budget_bytes, reusable)
        for clone in clones.values():
            self._copies.note(clone)
        self._copies.mark()
        for name in clones:
            self._refusals.pop(name, None)
        self._refusals.update(refusals)
        return clones

    # -- any thread's side ------------------------------------------------------------------------

    def declare_extra_update(
        self,
        source: str,
        *,
        delta_key: str | None = None,
        target_key: str | None = None,
        metrics_key: str | None = None,
    ) -> None:
        """Declare that something else than the optimizer moves a tensor, and where it is shown.

        Args:
            source: name of the tensor.
            delta_key: key of the step data that holds the part of each step's change that is not
                the optimizer's, of the tensor's shape. `key.name` is an entry of a mapping.
            target_key: key of the step data that holds where that part pulls the rows to.
            metrics_key: key of the step data with columns of one value per row.
        """
        declared = ExtraUpdate(delta_key=delta_key, target_key=target_key, metrics_key=metrics_key)
        with self._state.lock:
            self._extra_updates = {**self._extra_updates, source: declared}
            names = [each for each in (delta_key, target_key, metrics_key) if each is not None]
            self._state.captures.subscriptions.declare_tensor_keys(source, names)

    @property
    def sources(self) -> list[str]:
        """Tensors with rows: those with an extra update first, then the default one, then others.

        Only shapes and types are read here, never values.
        """
        watches = self._state.watches
        with self._state.lock:
            offered = dict(watches.readers)
            first = [*self._extra_updates, watches.default_source]
        names = dict.fromkeys([*(name for name in first if name in offered), *offered])
        return [name for name in names if name is not None and _has_rows(offered[name])]

    def captured(self, need: Need) -> tuple[int, int] | None:
        """The step whose clones show this tensor, and their bytes; None if there are none.

        A parked loop clones on request, so there its last step counts, with 0 bytes.
        """
        state = self._state
        name = self._default_name() if need.key is None else need.key
        with state.lock:
            record = self._record
            whole = need.kind != "weights"
            if name is not None and record is not None:
                earlier = self._earlier_record(name) if whole else None
                chosen = earlier or record
                if name in chosen.after and (not whole or name in chosen.before):
                    return chosen.step, int(chosen.after[name].nbytes) * (1 + whole)
            return (state.finished_steps, 0) if state.is_parked else None

    def get(
        self, source: str | None = None, *, whole: bool = True, patience_s: float = 2.0
    ) -> WeightChange:
        """The change of a tensor by the last shown step: clones from before and after.

        The tensor is leased for five seconds, unless a stream shows it; if there is no such step
        yet, waits for one. A running loop may park after a step that was not shown; then the last
        shown step is returned, with a note.

        Args:
            source: a name of `sources`; the first when left out.
            whole: whether the weights from before the step are needed too.
            patience_s: how long to wait for a step.

        Raises:
            ControlError: no change is known; the message says why, and what to do.
        """
        name, state = self._resolve_source(source), self._state
        need = Need(kind="forces" if whole else "weights", key=name)
        is_default = name == self._default_name()
        state.captures.subscriptions.read(need, *([replace(need, key=None)] if is_default else []))
        with state.lock:
            record = self._record
            earlier = self._earlier_record(name) if whole else None
        if earlier is not None:
            return self._make_change(
                earlier, name, note=_why_earlier(earlier, state.finished_steps)
            )
        if record is None or not self._has_tensor(record, name, whole=whole):
            record = self._wait_for_record(name, whole=whole, patience_s=patience_s)
        return self._make_change(record, name)

    def _earlier_record(self, name: str) -> _StepRecord | None:
        """Under the lock: the record to show if the loop parked after a step that was not shown."""
        record, earlier = self._record, self._last_with_before
        is_current = record is not None and record.step == self._state.finished_steps
        if record is None or earlier is None or not (self._state.is_parked and is_current):
            return None
        return earlier if name in earlier.before and name not in record.before else None

    def _resolve_source(self, source: str | None) -> str:
        known = self.sources
        if source in known:
            return str(source)
        if source is None and known:
            return known[0]
        if source in self._state.watches.readers:
            refusal = why_no_rows(self._state.watches.readers[str(source)]())
            raise ControlError(f"{source} {refusal or 'cannot be read'}")
        if not known:
            raise ControlError(
                "This run offers no tensor with rows; pass the model to Run, or call "
                "controller.watches.add_source."
            )
        raise ConfigError(f"no tensor {source!r}; there are {', '.join(known[:20])}")

    def _has_tensor(self, record: _StepRecord, name: str, *, whole: bool) -> bool:
        is_stale = self._state.is_parked and record.step != self._state.finished_steps
        return not is_stale and name in record.after and (not whole or name in record.before)

    def _wait_for_record(self, name: str, *, whole: bool, patience_s: float) -> _StepRecord:
        state = self._state
        until = time.monotonic() + patience_s
        with state.lock:
            self._refusals.pop(name, None)
            while True:
                record = self._record
                if record is not None and self._has_tensor(record, name, whole=whole):
                    return record
                is_served = state.is_parked and not self.has_waiting_reader
                if is_served and record is not None and record.step == state.finished_steps:
                    # The parked loop has answered, and no step will come to change the answer.
                    if name in record.after:
                        raise ControlError(_why_unknown(name, state.finished_steps))
                    if name in self._refusals:
                        raise ControlError(self._refusals[name])
                self._raise_if_hopeless(name, until)
                # Woken once: two waiting readers would otherwise wake each other for ever.
                if not self.has_waiting_reader:
                    self.has_waiting_reader = True
                    state.wake()
                state.changed.wait(POLL_S)

    def _raise_if_hopeless(self, name: str, until: float) -> None:
        if self._state.end is not None and not self._state.is_parked:
            raise ControlError(
                f"The run is {self._state.end}, and {name} was not captured before it ended. "
                "The health of its features is in the facts of the run."
            )
        if time.monotonic() >= until:
            raise ControlError(
                self._refusals.get(name)
                or f"No step that changed {name} has finished yet. Try again after the next step."
            )

    def _make_change(
        self, record: _StepRecord, name: str, *, note: str | None = None
    ) -> WeightChange:
        for ready in record.ready:
            ready.wait()
        keys, values = self._extra_updates.get(name, ExtraUpdate()), record.values
        metrics = values.get(keys.metrics_key or "")
        return WeightChange(
            step=record.step,
            source=name,
            before=record.before.get(name),
            after=record.after[name],
            extra_delta=find_entry(values, keys.delta_key or "", is_tensor),
            extra_target=find_entry(values, keys.target_key or "", is_tensor),
            target_key=keys.target_key,
            metrics=metrics if isinstance(metrics, Mapping) else {},
            note=note,
        )


def _why_earlier(record: _StepRecord, paused_at: int) -> str:
    return (
        f"This is step {record.step:,}, the last one shown before the run was paused after step "
        f"{paused_at:,}. Make one step to see its change."
    )


def _why_unknown(name: str, step: int) -> str:
    if step == 0:
        return f"No step has run yet, so {name} has not changed. Make one step and try again."
    return (
        f"The change of {name} by step {step} is unknown: it was not in view when the step began, "
        "or the tensor is too large to be cloned while running. Make one step and try again."
    )


def clone_within_budget(
    sources: Mapping[str, Callable[[], Any]],
    names: Iterable[str],
    budget_bytes: int,
    reusable: Mapping[str, Any] | None = None,
) -> tuple[dict[str, Any], dict[str, str]]:
    """Clone the named tensors in this order, as long as the budget lasts.

    Args:
        sources: functions that return the tensors, by name.
        names: which tensors to clone.
        budget_bytes: how many bytes to clone at most.
        reusable: old clones by name, which are written over where they fit.

    Returns:
        The clones by name; and, for each other name, why it was not cloned.
    """
    clones: dict[str, Any] = {}
    refusals: dict[str, str] = {}
    for name in names:
        try:
            tensor = sources[name]()
            refusal = why_no_rows(tensor) or _why_too_large(tensor, budget_bytes)
            if refusal is None:
                source: Any = tensor.detach()
                old: Any = (reusable or {}).get(name)
                clones[name] = old.copy_(source) if _fits(old, source) else source.clone()
                budget_bytes -= int(tensor.nbytes)
        except Exception as error:  # noqa: BLE001 - a function of the user, or out of memory
            refusal = f"cannot be copied: {type(error).__name__}: {str(error)[:200]}"
        if refusal is not None:
            refusals[name] = f"{name} {refusal}"
    return clones, refusals


def _fits(reusable: Any, tensor: Any) -> bool:
    """Whether the memory of a clone can hold `tensor` in the same layout."""
    # Strides too: a copy into another layout would be slower, and readers see the tensor's own.
    return bool(
        reusable is not None
        and reusable.shape == tensor.shape
        and reusable.dtype == tensor.dtype
        and reusable.device == tensor.device
        and reusable.stride() == tensor.stride()
    )


def _has_rows(read: Callable[[], Any]) -> bool:
    """Whether `read` returns a tensor with rows; False if it raises."""
    try:
        return why_no_rows(read()) is None
    except Exception:  # noqa: BLE001 - a function of the user: what cannot be read is not offered
        return False


def why_no_rows(tensor: Any) -> str | None:
    """Why a tensor has no rows that a step could change; None if it has.

    >>> import torch
    >>> why_no_rows(torch.ones(3))
    'is 1-dimensional; rows with a direction need two dimensions or more'
    """
    if not hasattr(tensor, "detach") or not tensor.is_floating_point():
        return "holds no floating-point numbers that a step could change"
    if tensor.dim() < 2:
        return f"is {tensor.dim()}-dimensional; rows with a direction need two dimensions or more"
    return None


def _why_too_large(tensor: Any, budget_bytes: int) -> str | None:
    if int(tensor.nbytes) <= budget_bytes:
        return None
    limit = f"{budget_bytes / 2**20:.0f} MiB"
    return (
        f"has {tensor.numel():,} elements ({tensor.nbytes / 2**20:.0f} MiB), more than can be "
        f"cloned in this step (limit {limit}). Choose a smaller tensor, or pause and make one "
        "step: a single step may clone more than a running one."
    )

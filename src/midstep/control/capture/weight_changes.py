"""What one step did to the weights: clones from before and after, while somebody watches.

The boundary takes them, so every loop has them with no code of its own: before = as the loop left
one boundary, after = as it reached the next. The part of a change that is not the gradient's is
what the loop itself pushes; `declare` says under which name.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from midstep.control.capture.tensor_clones import clone_within_budget, has_rows, why_no_rows
from midstep.control.control_state import ControlState, Viewer
from midstep.core.errors import ConfigError, ControlError

RUNNING_BYTES = 4 * 2**20
"""Clones in a step that is not to be shown unless a breakpoint stops the loop at it."""
SHOWN_BYTES = 32 * 2**20
"""Clones in one of the ten steps a second that are shown while running."""
PARKED_BYTES = 256 * 2**20
"""Clones in a step somebody made by hand, and while the loop stands: 10^8 elements are too many."""
MAX_REQUESTED = 8
REQUEST_LASTS_S = 30.0
POLL_S = 0.1


@dataclass(frozen=True, kw_only=True)
class ExtraUpdate:
    """Where a loop tells what else than the gradient moves one of its tensors."""

    source: str
    """Name of the tensor."""
    tensors: str | None = None
    """Step data with `som_delta` and `som_targets`, of the tensor's shape."""
    metrics: str | None = None
    """Step data with one value per row in each column, such as `win_rate`."""


@dataclass(frozen=True, kw_only=True, eq=False)
class WeightChange:
    """One tensor around one step: clones, so any thread may read them."""

    step: int
    """Finished steps after it."""
    source: str
    before: Any
    """None when nobody watched as the step began."""
    after: Any
    tensors: Mapping[str, Any]
    """What the loop pushed of its other force; empty when there is none."""
    metrics: Mapping[str, Any]
    """Columns about the rows; empty when there are none."""
    note: str | None = None
    """What is to be known of it besides."""


@dataclass(frozen=True, kw_only=True, eq=False)
class _StepRecord:
    """All that is known of one step; replaced as a whole, so that readers need no lock."""

    step: int
    before: dict[str, Any] = field(default_factory=dict)
    after: dict[str, Any] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)


class WeightChanges:
    """Clones tensors at the boundary for the training thread, and hands them to any other."""

    def __init__(self, state: ControlState) -> None:
        self._state = state
        self._extra_updates: dict[str, ExtraUpdate] = {}
        self._requested_at: dict[str, float] = {}
        self._refusals: dict[str, str] = {}
        """Why a tensor was not cloned at the last look."""
        self._before: dict[str, Any] = {}
        self._before_step = -1
        self._record: _StepRecord | None = None
        self._last_with_before: _StepRecord | None = None
        """The last one that has the weights from before: the loop may park behind a later step."""
        self.has_waiting_reader = False
        """Whether a reader waits for a tensor that a standing loop has not cloned yet."""

    # -- the training thread's side ---------------------------------------------------------------

    def begin(self, *, is_requested: bool) -> None:
        """A step begins: clone what its end will be compared with, if it is to be shown."""
        state = self._state
        spare, self._before = self._before, {}  # of a step that was not shown: nobody else has it
        shown = state.capture_store.clones_step
        if not (is_requested or shown or state.breakpoint_list.may_stop(state.step_index + 1)):
            if not state.viewer_count:
                self._drop()
            return
        running = SHOWN_BYTES if shown else RUNNING_BYTES
        budget = PARKED_BYTES if is_requested else running
        self._before = self._clone_sources(
            self._names_to_clone(everything=is_requested), budget, spare
        )
        self._before_step, state.holds_weights = state.finished_steps, True

    def _drop(self) -> None:
        """Nobody looks any more: hold nothing, and let the boundary be one flag test again."""
        state = self._state
        if state.holds_weights:
            self._record = self._last_with_before = None
            with state.lock:
                state.holds_weights = False
                state.refresh_flags()

    def end(self) -> None:
        """The step that ends here is shown: clone the same tensors again."""
        state = self._state
        if self._record is not None and self._record.step == state.finished_steps:
            return
        before, self._before = self._before, {}
        if self._before_step != state.finished_steps - 1:
            before = {}
        self._before_step = -1
        after = self._clone_sources(before, PARKED_BYTES)
        record = _StepRecord(
            step=state.finished_steps, before=before, after=after, values=self._shown_values()
        )
        if before:
            self._last_with_before = record
        self._publish(record)

    def forget_after(self, step: int) -> None:
        """The loop stands at `step` again: what a step behind it did is of another timeline."""
        if self._last_with_before is not None and self._last_with_before.step > step:
            self._last_with_before = None

    def serve(self) -> None:
        """While the loop stands: clone what a reader waits for."""
        state = self._state
        if not (self.has_waiting_reader and state.is_parked):
            return
        self.has_waiting_reader = False
        held = self._record
        if held is None or held.step != state.finished_steps:
            held = _StepRecord(step=state.finished_steps, values=self._shown_values())
        missing = [name for name in self._recently_requested() if name not in held.after]
        found = self._clone_sources(missing, PARKED_BYTES)
        self._publish(replace(held, after={**held.after, **found}))

    def _publish(self, record: _StepRecord) -> None:
        with self._state.lock:
            self._record, self._state.holds_weights = record, True
            self._state.changed.notify_all()

    def _shown_values(self) -> Mapping[str, Any]:
        """This step's data, where it was cloned."""
        shown = self._state.capture_store.shown
        return shown.values if shown.step == self._state.finished_steps else {}

    def _names_to_clone(self, *, everything: bool) -> list[str]:
        """Names in order of their importance."""
        board = self._state.watch_list
        with self._state.lock:
            default = [] if board.default_source is None else [board.default_source]
            rest = list(board.sources) if everything else []
        return list(
            dict.fromkeys([*self._recently_requested(), *self._extra_updates, *default, *rest])
        )

    def _recently_requested(self) -> list[str]:
        """The newest first; who has not asked for a while looks no more."""
        with self._state.lock:
            limit = self._state.clock() - REQUEST_LASTS_S
            kept = sorted(self._requested_at.items(), key=lambda item: -item[1])[:MAX_REQUESTED]
            self._requested_at = {name: at for name, at in kept if at >= limit}
            return list(self._requested_at)

    def _clone_sources(
        self, names: Iterable[str], budget_bytes: int, spare: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """A clone of each that has rows, as far as the budget goes; the others are noted."""
        found = clone_within_budget(self._state.watch_list.sources, names, budget_bytes, spare)
        for name in found.clones:
            self._refusals.pop(name, None)
        self._refusals.update(found.refusals)
        return found.clones

    # -- any thread's side ------------------------------------------------------------------------

    def declare_extra_update(
        self, source: str, *, tensors: str | None = None, metrics: str | None = None
    ) -> None:
        """Declare that something else than the gradient moves a tensor, and where that is shown.

        Args:
            source: name of the tensor.
            tensors: key of step data with `som_delta`, the part of each step's change that is not
                the gradient's, and `som_targets`, where it pulls to; both of the tensor's shape.
            metrics: key of step data with columns of one value per row; `grad_magnitude` and
                `som_magnitude` stand for the norms of the two parts.
        """
        declared = ExtraUpdate(source=source, tensors=tensors, metrics=metrics)
        with self._state.lock:
            self._extra_updates = {**self._extra_updates, source: declared}

    @property
    def sources(self) -> list[str]:
        """Tensors whose rows change at a step, those with a declared force and the default first.

        Only shapes and types are read here, never values.
        """
        board = self._state.watch_list
        with self._state.lock:
            offered = dict(board.sources)
            first = [
                *self._extra_updates,
                *([board.default_source] if board.default_source else []),
            ]
        names = dict.fromkeys([*(name for name in first if name in offered), *offered])
        return [name for name in names if has_rows(offered[name])]

    def get(
        self, source: str | None = None, *, whole: bool = True, patience_s: float = 2.0
    ) -> WeightChange:
        """What the last shown step did to a tensor: clones from before and after.

        Waits for a step, as a viewer, if none was captured yet. A running loop may park after a
        step that was not shown; then the last shown one is returned, with a note.

        Args:
            source: a name of `sources`; the first when left out.
            whole: whether the weights from before the step are needed too.
            patience_s: how long to wait for a step.

        Raises:
            ControlError: no change is known; the message says why, and what to do.
        """
        name, state = self._resolve_source(source), self._state
        with state.lock:
            self._requested_at[name] = state.clock()
            held = self._record
            earlier = self._earlier_record(name) if whole else None
        if earlier is not None:
            return self._make_change(
                earlier, name, note=_why_earlier(earlier.step, state.finished_steps)
            )
        if held is None or not self._has_tensor(held, name, whole=whole):
            with Viewer(state):
                held = self._wait_for_record(name, whole=whole, patience_s=patience_s)
        return self._make_change(held, name)

    def _earlier_record(self, name: str) -> _StepRecord | None:
        """Under the lock: what to show where the loop parked behind a step that was not shown."""
        held, followed = self._record, self._last_with_before
        if held is None or not self._state.is_parked or held.step != self._state.finished_steps:
            return None
        if followed is held or followed is None or name in held.before:
            return None
        return followed if name in followed.before else None

    def _resolve_source(self, source: str | None) -> str:
        known = self.sources
        if source in known:
            return str(source)
        if source is None and known:
            return known[0]
        if source in self._state.watch_list.sources:
            refusal = why_no_rows(self._state.watch_list.sources[str(source)]())
            raise ControlError(f"{source} {refusal or 'cannot be read'}")
        if not known:
            raise ControlError(
                "This run offers no tensor with rows; give Run its model, or call add_source."
            )
        raise ConfigError(f"no tensor {source!r}; there are {', '.join(known[:20])}")

    def _has_tensor(self, held: _StepRecord, name: str, *, whole: bool) -> bool:
        stale = self._state.is_parked and held.step != self._state.finished_steps
        return not stale and name in held.after and (not whole or name in held.before)

    def _wait_for_record(self, name: str, *, whole: bool, patience_s: float) -> _StepRecord:
        state = self._state
        until = time.monotonic() + patience_s
        with state.lock:
            self._refusals.pop(name, None)
            while True:
                held = self._record
                if held is not None and self._has_tensor(held, name, whole=whole):
                    return held
                standing = state.is_parked and not self.has_waiting_reader
                if standing and held is not None and held.step == state.finished_steps:
                    if name in held.after:
                        raise ControlError(_not_watched(name, state.finished_steps))
                    if name in self._refusals:
                        raise ControlError(self._refusals[name])
                self._raise_if_hopeless(name, until)
                if not self.has_waiting_reader:  # else two who wait would wake each other for ever
                    self.has_waiting_reader = True
                    state.wake()
                state.changed.wait(POLL_S)

    def _raise_if_hopeless(self, name: str, until: float) -> None:
        if self._state.end is not None and not self._state.is_parked:
            raise ControlError(
                f"The run is {self._state.end}, and {name} was not captured before. "
                "What its features became is in the facts of the run."
            )
        if time.monotonic() >= until:
            raise ControlError(
                self._refusals.get(name)
                or f"No step that changed {name} was finished yet. Ask again after the next step."
            )

    def _make_change(
        self, held: _StepRecord, name: str, *, note: str | None = None
    ) -> WeightChange:
        told = self._extra_updates.get(name, ExtraUpdate(source=name))
        return WeightChange(
            step=held.step,
            source=name,
            before=held.before.get(name),
            after=held.after[name],
            tensors=_mapping(held.values.get(told.tensors or "")),
            metrics=_mapping(held.values.get(told.metrics or "")),
            note=note,
        )


def _why_earlier(step: int, stands_at: int) -> str:
    return (
        f"This is step {step:,}, the last one shown before the run was paused behind step "
        f"{stands_at:,}. Make one step to see what that does."
    )


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _not_watched(name: str, step: int) -> str:
    if step == 0:
        return f"No step was made yet, so nothing changed {name}. Make one step and ask again."
    return (
        f"How step {step} changed {name} is not known: nobody watched as it began, or it is too "
        "large to be followed at full speed. Make one step and ask again."
    )

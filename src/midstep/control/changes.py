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

from midstep.control.row_tensors import clone_within, has_rows, why_no_rows
from midstep.control.shared import Shared
from midstep.control.viewer import Viewer
from midstep.core.errors import ConfigError, ControlError

__all__ = ["Change", "Changes", "Forces"]

RUNNING_BYTES = 4 * 2**20
"""Clones in a step that is not to be shown unless a breakpoint stops the loop at it."""
SHOWN_BYTES = 32 * 2**20
"""Clones in one of the ten steps a second that are shown while running."""
STANDING_BYTES = 256 * 2**20
"""Clones in a step somebody made by hand, and while the loop stands: 10^8 elements are too many."""
MAX_ASKED = 8
ASKED_FOR_S = 30.0
POLL_S = 0.1


@dataclass(frozen=True, kw_only=True)
class Forces:
    """Where a loop tells what else than the gradient moves one of its tensors."""

    source: str
    """Name of the tensor."""
    tensors: str | None = None
    """Step data with `som_delta` and `som_targets`, of the tensor's shape."""
    metrics: str | None = None
    """Step data with one value per row in each column, such as `win_rate`."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Change:
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
class _Record:
    """All that is known of one step; replaced as a whole, so that readers need no lock."""

    step: int
    before: dict[str, Any] = field(default_factory=dict)
    after: dict[str, Any] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)


class Changes:
    """Clones tensors at the boundary for the training thread, and hands them to any other."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._declared: dict[str, Forces] = {}
        self._asked: dict[str, float] = {}
        self._refused: dict[str, str] = {}
        """Why a tensor was not cloned at the last look."""
        self._before: dict[str, Any] = {}
        self._begun_at = -1
        self._record: _Record | None = None
        self._followed: _Record | None = None
        """The last one that has the weights from before: the loop may park behind a later step."""
        self.fresh = False
        """Whether a reader waits for a tensor that a standing loop has not cloned yet."""

    # -- the training thread's side ---------------------------------------------------------------

    def begin(self, *, by_hand: bool) -> None:
        """A step begins: clone what its end will be compared with, if it is to be shown."""
        shared = self._shared
        spare, self._before = self._before, {}  # of a step that was not shown: nobody else has it
        shown = shared.captures.wanted
        if not (by_hand or shown or shared.breakpoints.may_stop(shared.index + 1)):
            if not shared.viewers:
                self._drop()
            return
        running = SHOWN_BYTES if shown else RUNNING_BYTES
        budget = STANDING_BYTES if by_hand else running
        self._before = self._clones(self._plan(everything=by_hand), budget, spare)
        self._begun_at, shared.holds_weights = shared.finished, True

    def _drop(self) -> None:
        """Nobody looks any more: hold nothing, and let the boundary be one flag test again."""
        shared = self._shared
        if shared.holds_weights:
            self._record = self._followed = None
            with shared.lock:
                shared.holds_weights = False
                shared.refresh_flags()

    def end(self) -> None:
        """The step that ends here is shown: clone the same tensors again."""
        shared = self._shared
        if self._record is not None and self._record.step == shared.finished:
            return
        before, self._before = self._before, {}
        if self._begun_at != shared.finished - 1:
            before = {}
        self._begun_at = -1
        after = self._clones(before, STANDING_BYTES)
        record = _Record(step=shared.finished, before=before, after=after, values=self._values())
        if before:
            self._followed = record
        self._publish(record)

    def forget_after(self, step: int) -> None:
        """The loop stands at `step` again: what a step behind it did is of another timeline."""
        if self._followed is not None and self._followed.step > step:
            self._followed = None

    def serve(self) -> None:
        """While the loop stands: clone what a reader waits for."""
        shared = self._shared
        if not (self.fresh and shared.parked):
            return
        self.fresh = False
        held = self._record
        if held is None or held.step != shared.finished:
            held = _Record(step=shared.finished, values=self._values())
        missing = [name for name in self._asked_lately() if name not in held.after]
        found = self._clones(missing, STANDING_BYTES)
        self._publish(replace(held, after={**held.after, **found}))

    def _publish(self, record: _Record) -> None:
        with self._shared.lock:
            self._record, self._shared.holds_weights = record, True
            self._shared.changed.notify_all()

    def _values(self) -> Mapping[str, Any]:
        """This step's data, where it was cloned."""
        shown = self._shared.captures.shown
        return shown.values if shown.step == self._shared.finished else {}

    def _plan(self, *, everything: bool) -> list[str]:
        """Names in order of their importance."""
        board = self._shared.watches
        with self._shared.lock:
            default = [] if board.default_source is None else [board.default_source]
            rest = list(board.sources) if everything else []
        return list(dict.fromkeys([*self._asked_lately(), *self._declared, *default, *rest]))

    def _asked_lately(self) -> list[str]:
        """The newest first; who has not asked for a while looks no more."""
        with self._shared.lock:
            limit = self._shared.clock() - ASKED_FOR_S
            kept = sorted(self._asked.items(), key=lambda item: -item[1])[:MAX_ASKED]
            self._asked = {name: at for name, at in kept if at >= limit}
            return list(self._asked)

    def _clones(
        self, names: Iterable[str], budget_bytes: int, spare: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """A clone of each that has rows, as far as the budget goes; the others are noted."""
        found = clone_within(self._shared.watches.sources, names, budget_bytes, spare)
        for name in found.clones:
            self._refused.pop(name, None)
        self._refused.update(found.refusals)
        return found.clones

    # -- any thread's side ------------------------------------------------------------------------

    def declare(self, forces: Forces) -> None:
        """Say where the other force on a tensor is told."""
        with self._shared.lock:
            self._declared = {**self._declared, forces.source: forces}

    def sources(self) -> list[str]:
        """Tensors whose rows change at a step, those with a declared force and the default first.

        Only shapes and types are read here, never values.
        """
        board = self._shared.watches
        with self._shared.lock:
            offered = dict(board.sources)
            first = [*self._declared, *([board.default_source] if board.default_source else [])]
        names = dict.fromkeys([*(name for name in first if name in offered), *offered])
        return [name for name in names if has_rows(offered[name])]

    def look(self, source: str | None, *, whole: bool, patience_s: float) -> Change:
        """The last shown change of a tensor; waits for one, as a viewer, if there is none yet.

        A loop that was running parks behind a step that was perhaps not shown; then the last one
        that was is given, with a note.

        Args:
            source: a name of `sources`; the first when left out.
            whole: whether the weights from before the step are needed too.
            patience_s: how long to wait.
        """
        name, shared = self._checked(source), self._shared
        with shared.lock:
            self._asked[name] = shared.clock()
            held = self._record
            earlier = self._earlier(name) if whole else None
        if earlier is not None:
            return self._change(earlier, name, note=_why_earlier(earlier.step, shared.finished))
        if held is None or not self._is_there(held, name, whole=whole):
            with Viewer(shared):
                held = self._wait(name, whole=whole, patience_s=patience_s)
        return self._change(held, name)

    def _earlier(self, name: str) -> _Record | None:
        """Under the lock: what to show where the loop parked behind a step that was not shown."""
        held, followed = self._record, self._followed
        if held is None or not self._shared.parked or held.step != self._shared.finished:
            return None
        if followed is held or followed is None or name in held.before:
            return None
        return followed if name in followed.before else None

    def _checked(self, source: str | None) -> str:
        known = self.sources()
        if source in known:
            return str(source)
        if source is None and known:
            return known[0]
        if source in self._shared.watches.sources:
            refusal = why_no_rows(self._shared.watches.sources[str(source)]())
            raise ControlError(f"{source} {refusal or 'cannot be read'}")
        if not known:
            raise ControlError(
                "This run offers no tensor with rows; give Run its model, or call add_source."
            )
        raise ConfigError(f"no tensor {source!r}; there are {', '.join(known[:20])}")

    def _is_there(self, held: _Record, name: str, *, whole: bool) -> bool:
        stale = self._shared.parked and held.step != self._shared.finished
        return not stale and name in held.after and (not whole or name in held.before)

    def _wait(self, name: str, *, whole: bool, patience_s: float) -> _Record:
        shared = self._shared
        until = time.monotonic() + patience_s
        with shared.lock:
            self._refused.pop(name, None)
            while True:
                held = self._record
                if held is not None and self._is_there(held, name, whole=whole):
                    return held
                standing = shared.parked and not self.fresh
                if standing and held is not None and held.step == shared.finished:
                    if name in held.after:
                        raise ControlError(_not_watched(name, shared.finished))
                    if name in self._refused:
                        raise ControlError(self._refused[name])
                self._give_up_after(name, until)
                if not self.fresh:  # else two who wait would wake each other for ever
                    self.fresh = True
                    shared.wake()
                shared.changed.wait(POLL_S)

    def _give_up_after(self, name: str, until: float) -> None:
        if self._shared.end is not None and not self._shared.parked:
            raise ControlError(
                f"The run is {self._shared.end}, and {name} was not captured before. "
                "What its features became is in the facts of the run."
            )
        if time.monotonic() >= until:
            raise ControlError(
                self._refused.get(name)
                or f"No step that changed {name} was finished yet. Ask again after the next step."
            )

    def _change(self, held: _Record, name: str, *, note: str | None = None) -> Change:
        told = self._declared.get(name, Forces(source=name))
        return Change(
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

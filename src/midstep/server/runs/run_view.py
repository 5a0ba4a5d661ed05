"""A run as routes and streams see it: `RunView` to read, `RunControl` to change.

`LiveRunView` is a run of this process. It is the only part of the server that calls a controller.
`StoredRunView` in `stored_run.py` is a run on disk.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from midstep.control import (
    Breakpoint,
    CapturedBatch,
    Command,
    CommandRecord,
    DebugController,
    StepData,
)
from midstep.control.breakpoints.breakpoint import Action
from midstep.control.capture.weight_changes import WeightChange
from midstep.control.watches.watch_list import TrackedRows
from midstep.core.commands.definition import CommandDefinition

if TYPE_CHECKING:
    from midstep.facts import FactsReader, SeriesStore

T = TypeVar("T")

ENDED = frozenset({"finished", "stopped", "failed"})
"""Names of states in which a controller makes no further step."""
MEASURED = {"boundary_age_s": None, "steps_per_s": None}
"""Fields of the state that differ at every look, although nothing happened."""
NOT_RESPONDING_S = 10.0
"""A moving run without a boundary for this long is shown as not responding."""


@dataclass(frozen=True, kw_only=True)
class WatchedRows:
    """Which rows of which tensors a run watches."""

    source: str | None
    """The tensor that was chosen last, or the default one."""
    rows: Mapping[str, list[int]]
    """Watched rows by tensor."""
    sources: list[str]
    """Tensors whose rows can be watched, the default one first."""


class RunControl(Protocol):
    """What changes a run. Every method may be called from any thread."""

    @property
    def registry(self) -> Mapping[str, CommandDefinition[Any]]:
        """The commands that the run takes, by name."""
        ...

    def submit(self, command: Command) -> Future[Any]:
        """Queue a command; an unknown name or an invalid payload raises `ConfigError`."""
        ...

    def cancel(self, command_id: str) -> bool:
        """Withdraw a waiting command, or ask a running one to end. False if it has ended."""
        ...

    def add_breakpoint(
        self, kind: str, *, enabled: bool, action: Action, **settings: Any
    ) -> Breakpoint:
        """Add a breakpoint; it is checked from the next boundary on."""
        ...

    def enable_breakpoint(self, breakpoint_id: int, enabled: bool) -> Breakpoint:
        """Switch a breakpoint on or off."""
        ...

    def set_breakpoint_action(self, breakpoint_id: int, action: Action) -> Breakpoint:
        """Let a breakpoint pause the run, or only mark it."""
        ...

    def remove_breakpoint(self, breakpoint_id: int) -> Breakpoint:
        """Remove a breakpoint and return it."""
        ...

    def replace_watches(self, rows: Iterable[int], source: str | None) -> None:
        """Replace the watched rows of one tensor; no rows and no tensor: watch nothing."""
        ...

    def clear_trajectories(self) -> None:
        """Forget all points of watched rows."""
        ...


class RunView(Protocol):
    """What can be read of a run, live or stored. Every method may be called from any thread."""

    id: str
    """Drawn once per run."""
    name: str
    """What the user called it."""
    dir: Path
    """The run directory."""
    started_at: float
    """When it began, in seconds since 1970."""

    @property
    def attempt(self) -> int:
        """Which start of the run this is, from 1."""
        ...

    @property
    def timeline(self) -> int:
        """How often the run was taken back."""
        ...

    @property
    def seq(self) -> int:
        """Sequence number of the newest fact."""
        ...

    @property
    def is_live(self) -> bool:
        """Whether the run has not ended."""
        ...

    @property
    def has_moved(self) -> bool:
        """Whether another process answers for the run now, as of the last call of `state`."""
        ...

    def state(self) -> dict[str, Any]:
        """The fields of `StateOut`; `number` grows with every change."""
        ...

    def batch(self) -> CapturedBatch | None:
        """The last captured batch; None when there is none."""
        ...

    def step_data(self) -> StepData:
        """The last complete step data, with its step."""
        ...

    def weight_names(self) -> list[str]:
        """Tensors whose change by a step can be read, the default one first."""
        ...

    def weight_change(self, tensor: str | None, *, whole: bool = True) -> WeightChange:
        """One tensor before and after the last shown step.

        Args:
            tensor: a name of `weight_names`; the first when left out.
            whole: whether the weights from before the step are needed too.

        Raises:
            ControlError: the change is not known; the message says why, and what to do.
        """
        ...

    def rewind(self) -> dict[str, Any]:
        """The fields of `RewindOut`: how far back the run can go."""
        ...

    def breakpoints(self) -> list[Breakpoint]:
        """All breakpoints by id."""
        ...

    def watches(self) -> WatchedRows:
        """Which rows are watched, and which could be."""
        ...

    def trajectories(self, *, points: int, in_all: int) -> list[TrackedRows]:
        """Copies of the points of all watched rows, one entry a tensor, never empty.

        Args:
            points: most points a series; beyond them a series is thinned.
            in_all: most points over all series.
        """
        ...

    def commands(self, limit: int) -> list[CommandRecord]:
        """The last commands, newest last."""
        ...

    def command(self, command_id: str) -> CommandRecord | None:
        """What became of a command; None for an unknown id."""
        ...

    def command_names(self) -> list[str]:
        """Names of the commands that the run takes, sorted."""
        ...

    def header(self) -> dict[str, Any]:
        """The header record of the last attempt."""
        ...

    def events(self, after_seq: int, limit: int) -> list[dict[str, Any]]:
        """At most `limit` events with a sequence number above `after_seq`."""
        ...

    def with_series(self, read: Callable[[SeriesStore], T]) -> T:
        """`read(store)` on the refreshed store of the run's series."""
        ...

    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` at every change, from any thread. Returns how to unsubscribe."""
        ...

    def viewer(self) -> AbstractContextManager[object]:
        """Count as a viewer inside the block, so that steps are captured."""
        ...

    def control(self) -> RunControl:
        """What changes the run.

        Raises:
            Refusal: 409 with the reason, where commands do not reach the run.
        """
        ...


class RunViewBase(ABC):
    """What live and stored runs share: one reader of their facts, and the number of their state.

    Args:
        run_id: as it is listed.
        name: what the user called it.
        run_dir: the run directory.
        started_at: when it began, in seconds since 1970.
    """

    def __init__(self, run_id: str, name: str, run_dir: Path, started_at: float) -> None:
        self.id, self.name, self.dir, self.started_at = run_id, name, run_dir, started_at
        self._store: SeriesStore | None = None
        self._store_lock = threading.Lock()
        self._reader: FactsReader | None = None
        self._reader_lock = threading.Lock()
        self._header: dict[str, Any] = {}
        self._state_lock = threading.Lock()
        self._last_state: dict[str, Any] = {}
        self._state_number = 0

    def state(self) -> dict[str, Any]:
        """The fields of `StateOut`; `number` grows with every change."""
        # A response and the stream may cross on the way: the page shows the larger number.
        with self._state_lock:
            state = self._read_state()
            lasting = {**state, **MEASURED}
            if lasting != self._last_state:
                self._last_state, self._state_number = lasting, self._state_number + 1
            return {**state, "number": self._state_number}

    @abstractmethod
    def _read_state(self) -> dict[str, Any]:
        """The fields of `StateOut` without the number."""

    def header(self) -> dict[str, Any]:
        """The header record of the last attempt."""
        if not self._header:  # it never changes, so it is read once
            self._header = self._with_reader(lambda reader: reader.header())
        return self._header

    def events(self, after_seq: int, limit: int) -> list[dict[str, Any]]:
        """At most `limit` events with a sequence number above `after_seq`."""
        return self._with_reader(lambda reader: reader.events(after_seq, limit))

    def _with_reader(self, read: Callable[[FactsReader], T]) -> T:
        """`read(reader)` on the one reader: it remembers where earlier answers ended."""
        from midstep.facts import FactsReader

        with self._reader_lock:
            if self._reader is None:
                self._reader = FactsReader(self.dir)
            return read(self._reader)

    def with_series(self, read: Callable[[SeriesStore], T]) -> T:
        """`read(store)` on the refreshed store; readers wait for each other, never for training."""
        from midstep.facts import SeriesStore

        with self._store_lock:
            if self._store is None:
                self._store = SeriesStore(self.dir)
            self._store.refresh()
            return read(self._store)


class FactsLike(Protocol):
    """What the server needs of the facts of a live run; `FactsWriter` has it."""

    @property
    def seq(self) -> int:
        """Sequence number of the newest fact."""
        ...

    @property
    def attempt(self) -> int:
        """Which start of the run this is, from 1."""
        ...

    @property
    def timeline(self) -> int:
        """How often the run was taken back."""
        ...


class ServedRunLike(Protocol):
    """What the server needs of a live run; `session.Run` has it."""

    @property
    def run_id(self) -> str:
        """Drawn once per run."""
        ...

    @property
    def name(self) -> str:
        """What the user called it."""
        ...

    @property
    def dir(self) -> Path:
        """The run directory."""
        ...

    @property
    def controller(self) -> DebugController:
        """The controller of its loop."""
        ...

    @property
    def facts(self) -> FactsLike:
        """Its facts."""
        ...

    @property
    def started_at(self) -> float:
        """When it began, in seconds since 1970."""
        ...


class LiveRunView(RunViewBase):
    """A run of this process, read from its controller.

    Args:
        run: the run.
    """

    has_moved = False
    """This process answers for the run."""

    def __init__(self, run: ServedRunLike) -> None:
        super().__init__(run.run_id, run.name, run.dir, run.started_at)
        self._controller, self._facts = run.controller, run.facts
        self._control = LiveRunControl(run.controller)

    @property
    def attempt(self) -> int:
        """Which start of the run this is, from 1."""
        return self._facts.attempt

    @property
    def timeline(self) -> int:
        """How often the run was taken back."""
        return self._facts.timeline

    @property
    def seq(self) -> int:
        """Sequence number of the newest fact."""
        return self._facts.seq

    @property
    def is_live(self) -> bool:
        """Whether the run has not ended."""
        return self._controller.status.state_name not in ENDED

    def _read_state(self) -> dict[str, Any]:
        """The controller's state, and "not responding" when no boundary came for a while."""
        state = self._controller.get_state()
        moving = state["state"] in ("running", "stepping", "pausing")
        # A loop that declared a phase between boundaries, such as a validation, is not stuck.
        in_phase = self._controller.status.phase is not None
        if moving and not in_phase and state["boundary_age_s"] >= NOT_RESPONDING_S:
            state["state"] = "not responding"
        return state

    def batch(self) -> CapturedBatch | None:
        """The last captured batch; None before the first."""
        captured = self._controller.get_batch()
        return None if captured is None else CapturedBatch(**captured)

    def step_data(self) -> StepData:
        """The last complete step data that was cloned, with its step."""
        return self._controller.captures.shown()

    def weight_names(self) -> list[str]:
        """Tensors whose change by a step can be read, the default one first."""
        return self._controller.weight_changes.sources

    def weight_change(self, tensor: str | None, *, whole: bool = True) -> WeightChange:
        """One tensor before and after the last shown step; waits up to 2 s for a step."""
        return self._controller.weight_changes.get(tensor, whole=whole)

    def rewind(self) -> dict[str, Any]:
        """The fields of `RewindOut`: how far back the run can go."""
        return self._controller.status.get_rewind()

    def breakpoints(self) -> list[Breakpoint]:
        """All breakpoints by id."""
        return self._controller.list_breakpoints()

    def watches(self) -> WatchedRows:
        """Which rows are watched, and which could be."""
        controller = self._controller
        return WatchedRows(
            source=controller.watches.source,
            rows=controller.watches.watched_by_source(),
            sources=controller.watches.sources,
        )

    def trajectories(self, *, points: int, in_all: int) -> list[TrackedRows]:
        """Copies of the points of all watched rows; the tensor chosen last comes first."""
        return self._controller.watches.copy(points=points, in_all=in_all)

    def commands(self, limit: int) -> list[CommandRecord]:
        """The last commands, newest last."""
        return self._controller.queue.latest(limit=limit)

    def command(self, command_id: str) -> CommandRecord | None:
        """What became of a command, among the last 10,000."""
        return self._controller.queue.find(command_id)

    def command_names(self) -> list[str]:
        """Names of the commands that the run takes, sorted."""
        return sorted(self._controller.queue.registry)

    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` at every change, from any thread. Returns how to unsubscribe."""
        return self._controller.sinks.subscribe(callback)

    def viewer(self) -> AbstractContextManager[object]:
        """Count as a viewer inside the block, so that steps are captured."""
        return self._controller.captures.viewer()

    def control(self) -> RunControl:
        """What changes the run; a live run of this process never refuses here."""
        return self._control


class LiveRunControl:
    """Changes a run of this process through its controller.

    Args:
        controller: of the run.
    """

    def __init__(self, controller: DebugController) -> None:
        self._controller = controller

    @property
    def registry(self) -> Mapping[str, CommandDefinition[Any]]:
        """The commands that the run takes, by name."""
        return self._controller.queue.registry

    def submit(self, command: Command) -> Future[Any]:
        """Queue a command; an unknown name or an invalid payload raises `ConfigError`."""
        return self._controller.queue.submit(command, raise_invalid=True)

    def cancel(self, command_id: str) -> bool:
        """Withdraw a waiting command, or ask a running one to end. False if it has ended."""
        return self._controller.queue.cancel(command_id)

    def add_breakpoint(
        self, kind: str, *, enabled: bool, action: Action, **settings: Any
    ) -> Breakpoint:
        """Add a breakpoint; it is checked from the next boundary on."""
        return self._controller.add_breakpoint(kind, enabled=enabled, action=action, **settings)

    def enable_breakpoint(self, breakpoint_id: int, enabled: bool) -> Breakpoint:
        """Switch a breakpoint on or off."""
        return self._controller.breakpoints.enable(breakpoint_id, enabled)

    def set_breakpoint_action(self, breakpoint_id: int, action: Action) -> Breakpoint:
        """Let a breakpoint pause the run, or only mark it."""
        return self._controller.breakpoints.set_action(breakpoint_id, action)

    def remove_breakpoint(self, breakpoint_id: int) -> Breakpoint:
        """Remove a breakpoint and return it."""
        return self._controller.remove_breakpoint(breakpoint_id)

    def replace_watches(self, rows: Iterable[int], source: str | None) -> None:
        """Replace the watched rows of one tensor; no rows and no tensor: watch nothing."""
        self._controller.watches.replace(rows, source)

    def clear_trajectories(self) -> None:
        """Forget all points of watched rows; their watches continue."""
        self._controller.clear_trajectories()

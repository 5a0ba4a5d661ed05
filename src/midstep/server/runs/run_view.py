"""A run as routes and streams read it. `RunView.control` returns the controller that changes it.

`LiveRunView` in `live_run.py` is a run of this process, `StoredRunView` in `stored_run.py` a run on
disk, which has no controller.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from midstep.control import (
    CapturedBatch,
    CommandRecord,
    DebugController,
    StepData,
    Viewer,
)
from midstep.control.capture.captured_data import CapturedSamples
from midstep.control.capture.notices import CaptureNotice
from midstep.control.capture.subscriptions import Subscriptions
from midstep.control.capture.weight_changes import WeightChange
from midstep.control.watches.watches import TrackedRows
from midstep.server.problems import damaged_files

if TYPE_CHECKING:
    from midstep.facts import FactsReader, SeriesStore
    from midstep.server.runs.kept_step import KeptStops

T = TypeVar("T")

ENDED = frozenset({"finished", "stopped", "failed"})
"""Names of states in which a controller makes no further step."""
MEASURED = {"boundary_age_s": None, "steps_per_s": None}
"""Fields of the state that differ at every read, although the run did not change."""


class ShownBreakpoint(Protocol):
    """A breakpoint, of a live run or as it was kept."""

    @property
    def id(self) -> int:
        """Its id."""

    def describe(self) -> dict[str, Any]:
        """The fields of `BreakpointOut`."""


class LastStop(Protocol):
    """The last stop of a run by a breakpoint or an error."""

    @property
    def diagnosis(self) -> Mapping[str, Any] | None:
        """Where it came from, with the fields of `DiagnosisOut`; None without a stop.

        Of a stored run this is what a record says, which another program may have written.
        """

    @property
    def failure(self) -> Mapping[str, Any] | None:
        """The error that ended the run, with the fields of `FailureOut`; None without one."""


class RunView(ABC):
    """What can be read of a run, live or stored. Every method may be called from any thread.

    The base class reads the facts, which are on disk for both, and numbers the states.

    Args:
        run_id: the id under which the run is listed.
        name: the name that the user gave it.
        run_dir: the run directory.
        started_at: when it started, in seconds since 1970.
        attempt: which start of the run this is, from 1.
    """

    last_stop: LastStop
    """The last stop by a breakpoint or an error."""
    kept: KeptStops
    """What was kept of its stops."""
    most_rows: int | None = None
    """Rows of a layout of scalars that are kept in memory; None for all of them."""

    def __init__(
        self, run_id: str, name: str, run_dir: Path, started_at: float, attempt: int
    ) -> None:
        self.id, self.name, self.dir = run_id, name, run_dir
        self.started_at, self.attempt = started_at, attempt
        self.has_moved = False
        """Whether another process answers for the run now, as of the last call of `state`."""
        self._store: SeriesStore | None = None
        self._store_lock = threading.Lock()
        self._reader: FactsReader | None = None
        self._reader_lock = threading.Lock()
        self._header: dict[str, Any] = {}
        self._state_lock = threading.Lock()
        self._last_state: dict[str, Any] = {}
        # Numbers start at the time in microseconds, so that a later view of the same run, in this
        # process or another one, continues above the numbers of the earlier view. A page that saw
        # the earlier one would ignore lower numbers as old. 2^53 is reached in the year 2255.
        self._state_number = time.time_ns() // 1_000

    # -- shared by live and stored runs -----------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """The fields of `StateOut`; `number` grows with every change."""
        # A response and a stream message may overtake each other on their way to the page. The
        # page shows the one with the larger number. The lock covers the read as well: otherwise
        # the older of two concurrent reads could get the larger number.
        with self._state_lock:
            state = self._read_state()
            lasting = {**state, **MEASURED}
            if lasting != self._last_state:
                self._last_state, self._state_number = lasting, self._state_number + 1
            return {**state, "number": self._state_number}

    def header(self) -> dict[str, Any]:
        """The header record of the last attempt."""
        if not self._header:  # it never changes, so it is read once
            self._header = self.with_facts(lambda reader: reader.header())
        return self._header

    def with_facts(self, read: Callable[[FactsReader], T]) -> T:
        """Return `read(reader)`. There is one reader, because it caches the offsets it has read."""
        from midstep.facts import FactsReader

        with self._reader_lock:
            if self._reader is None:
                self._reader = FactsReader(self.dir)
            with damaged_files():
                return read(self._reader)

    def with_series(self, read: Callable[[SeriesStore], T]) -> T:
        """Return `read(store)` on the refreshed store of the run's series.

        Requests wait for each other here. They never wait for the training thread.
        """
        from midstep.facts import SeriesStore

        with self._store_lock:
            if self._store is None:
                self._store = SeriesStore(self.dir, most_rows=self.most_rows)
            try:
                with damaged_files():
                    self._store.refresh()
                    return read(self._store)
            finally:
                self._store.forget_rows()

    # -- different for live and stored runs -------------------------------------------------------

    @property
    @abstractmethod
    def timeline(self) -> int:
        """How often the run went back to an earlier step."""

    @property
    @abstractmethod
    def seq(self) -> int:
        """Sequence number of the newest fact."""

    @property
    @abstractmethod
    def is_live(self) -> bool:
        """Whether the run has not ended."""

    @property
    @abstractmethod
    def paused_at(self) -> int | None:
        """Finished steps of a run that is paused; None while it moves, and after its end."""

    @abstractmethod
    def _read_state(self) -> dict[str, Any]:
        """The fields of `StateOut` without the number."""

    @abstractmethod
    def captured_batch(
        self, first: int, count: int | None
    ) -> CapturedBatch | CapturedSamples | None:
        """The newest capture with these samples; the whole batch if `count` is None.

        For a live run this is a lease of 5 s, unless a stream shows them; the first call waits.
        """

    @abstractmethod
    def capture_named(self, etag: str) -> CapturedBatch | CapturedSamples | None:
        """The capture of a batch with this etag; None if it is not held."""

    @abstractmethod
    def step_data(self, key: str | None = None) -> StepData:
        """The newest step data; for a live run a lease of `key`, or of all keys."""

    @abstractmethod
    def weight_names(self) -> list[str]:
        """Tensors whose change by a step can be read, the default one first."""

    @abstractmethod
    def weight_change(self, tensor: str | None, *, whole: bool = True) -> WeightChange:
        """One tensor before and after the last shown step.

        Args:
            tensor: a name of `weight_names`; the first when left out.
            whole: whether the weights from before the step are needed too.

        Raises:
            ControlError: the change is not known; the message gives the reason and what to do.
        """

    @abstractmethod
    def rewind(self) -> dict[str, Any]:
        """The fields of `RewindOut`: how far back the run can go."""

    @abstractmethod
    def breakpoints(self) -> Sequence[ShownBreakpoint]:
        """All breakpoints by id."""

    @abstractmethod
    def watches(self) -> dict[str, Any]:
        """The fields of `WatchOut`: which rows are watched, and which could be."""

    @abstractmethod
    def trajectories(self, *, points: int, in_all: int) -> list[TrackedRows]:
        """Copies of the points of all watched rows, one entry for each tensor, never empty.

        Args:
            points: most points of one series; a longer series is thinned.
            in_all: most points over all series.
        """

    @abstractmethod
    def commands(self, limit: int) -> list[CommandRecord]:
        """The last commands, newest last."""

    @abstractmethod
    def command(self, command_id: str) -> CommandRecord | None:
        """The record of a command; None for an unknown id."""

    @abstractmethod
    def command_names(self) -> list[str]:
        """Names of the commands that the run accepts, sorted."""

    @abstractmethod
    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` at every change, from any thread. The result unsubscribes it."""

    @abstractmethod
    def viewer(self) -> AbstractContextManager[Viewer | None]:
        """Count one more viewer inside the block; None where nothing can be subscribed."""

    @abstractmethod
    def subscriptions(self) -> Subscriptions | None:
        """What is in view; None where nothing can be subscribed."""

    @abstractmethod
    def capture_notices(self, stream: str) -> list[CaptureNotice]:
        """The captures of a stream that can be read now."""

    @abstractmethod
    def control(self) -> DebugController:
        """The controller of the run, which changes it. It may be called from any thread.

        Raises:
            Refusal: 409 with the reason, where commands do not reach the run.
        """

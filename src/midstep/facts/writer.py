"""The writer of a run's facts: what `log` or `event` returned from is with the kernel."""

from __future__ import annotations

import atexit
import os
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from struct import error as StructError  # noqa: N812 - an exception, named like one
from types import TracebackType
from typing import Any

from midstep.core.errors import ConfigError, RunHeldError, StorageError
from midstep.core.ids import new_run_id
from midstep.core.moments import LIFECYCLE, Moment
from midstep.facts.frames import FileHeader
from midstep.facts.ledger import Ledger
from midstep.facts.lines import encode_fields
from midstep.facts.lock import RunLock
from midstep.facts.numbers import PLAIN_TYPES, Deferred
from midstep.facts.outbox import Outbox
from midstep.facts.places import ensure_facts_dir
from midstep.facts.recovery import recover
from midstep.facts.scrutiny import Scrutiny
from midstep.facts.tender import Tender
from midstep.facts.told import Told

__all__ = ["FactsWriter", "open_writer"]

_open: weakref.WeakValueDictionary[tuple[str, int], FactsWriter] = weakref.WeakValueDictionary()


class FactsWriter:
    """Writes the facts of one run directory, from any thread of one process.

    Args:
        run_dir: the run directory; `facts/` is made in it.
        run_id: the run's id; by default the one already on disk, else a new one.
        attempt: which start of the run this is, from 1.
        rank: the process among those of a distributed run; rank 0 holds the run's lock.
        timeline: counts rewinds; a row of a higher timeline replaces that of a lower one.
        on_fault: called once for each fault, with the reason, when the disk refuses.

    >>> import tempfile
    >>> with FactsWriter(tempfile.mkdtemp()) as facts:
    ...     facts.log(1, loss=0.5)
    ...     facts.event(Moment.TRAIN_END, status="finished")
    2
    """

    def __init__(
        self,
        run_dir: str | os.PathLike[str],
        *,
        run_id: str | None = None,
        attempt: int = 1,
        rank: int = 0,
        timeline: int = 0,
        on_fault: Callable[[str], None] | None = None,
    ) -> None:
        self.run_dir = Path(run_dir)
        self._key = (os.path.realpath(self.run_dir), rank)
        if self._key in _open:
            raise RunHeldError(
                f"run directory {self.run_dir} is already being written by this process; "
                "use that writer, or close it first"
            )
        ensure_facts_dir(self.run_dir)
        self._lock = RunLock.acquire(self.run_dir) if rank == 0 else None
        try:
            found = recover(self.run_dir, rank=rank, attempt=attempt)
            header = FileHeader(run_id or found.run_id or new_run_id(), attempt, rank)
            self._ledger = Ledger(
                self.run_dir, header, last_seq=found.last_seq, layouts=found.layouts
            )
        except BaseException:
            if self._lock is not None:
                self._lock.release()
            raise
        self.run_id, self.attempt, self.rank = header.run_id, attempt, rank
        self._outbox = Outbox(
            self._ledger, timeline=max(timeline, found.timeline), on_fault=on_fault
        )
        self._tender = Tender(self.run_dir, self._ledger, self._outbox)
        self._scrutiny = Scrutiny(self._note_refusal)
        self._ended: str | None = None
        _open[self._key] = self
        atexit.register(self.close)
        self._tender.start()
        for note in found.notes:
            self.event(Moment.INTERVENTION, who="system", **note)

    # -- what it tells --------------------------------------------------------------------------

    @property
    def seq(self) -> int:
        """The number of the last record taken in."""
        return self._outbox.seq

    @property
    def written(self) -> int:
        """The number of the last record that is with the kernel."""
        return self._ledger.seq

    @property
    def timeline(self) -> int:
        """Counts rewinds; stands in every record."""
        return self._outbox.timeline

    @timeline.setter
    def timeline(self, timeline: int) -> None:
        if not 0 <= timeline < 2**32:
            raise ConfigError(f"timeline must be from 0 to 2^32 - 1, got {timeline}")
        self._outbox.timeline = int(timeline)

    @property
    def dropped(self) -> int:
        """Rows lost because too many waited for the disk."""
        return self._outbox.dropped

    @property
    def fault(self) -> str | None:
        """Why the disk refuses now; None when it does not."""
        return self._outbox.fault

    @property
    def durability_lost(self) -> str | None:
        """Why some records may not survive a power cut: an fsync failed."""
        return self._outbox.durability_lost

    @property
    def is_closed(self) -> bool:
        """Whether it takes no more records; those that wait may still be on their way."""
        return self._ended is not None

    def follow(self) -> Told:
        """Be told every record from now on, once it is with the kernel."""
        return self._ledger.follow()

    def unfollow(self, told: Told) -> None:
        """Be told no more; idempotent."""
        self._ledger.unfollow(told)

    # -- scalars --------------------------------------------------------------------------------

    def log(self, step: int, **scalars: Any) -> None:
        """Record scalars of a step: numbers, or tensors of one element."""
        self.log_values(step, scalars)

    def log_values(self, step: int, values: Mapping[str, Any]) -> None:
        """Record a mapping of scalars; what is no number is left out, and a fact says so."""
        if self._ended is not None or not values:
            self._check_open()
            return
        if PLAIN_TYPES.issuperset(map(type, values.values())):
            try:
                if self._outbox.put_row(step, tuple(values), values.values()):
                    return
            except (StructError, TypeError, OverflowError, UnicodeError, AttributeError):
                pass  # an odd step, name or number: looked at one by one below
        self._log_carefully(step, values)

    def _log_carefully(self, step: Any, values: Mapping[str, Any]) -> None:
        number, kept = self._scrutiny.step(step), self._scrutiny.scalars(values)
        if number is None or not kept:
            return
        numbers = [value for value in kept.values() if not isinstance(value, Deferred)]
        is_ready = len(numbers) == len(kept)
        if not (is_ready and self._outbox.put_row(number, tuple(kept), numbers)):
            self._outbox.queue_row(number, tuple(kept), kept.values())
            if self._outbox.is_waiting:
                self._tender.wake()

    def _note_refusal(self, name: str, reason: str) -> None:
        self.event(
            Moment.INTERVENTION, who="system", kind="value_refused", name=name, reason=reason
        )

    # -- events ---------------------------------------------------------------------------------

    def event(self, moment: Moment | str, **fields: Any) -> int:
        """Record an event and return its number. Lifecycle moments are on the disk itself then."""
        self._check_open()
        moment = Moment(moment)
        text = encode_fields(fields)
        seq = self._outbox.put_event(moment, text, is_durable=moment in LIFECYCLE)
        if moment is Moment.EPOCH_END:
            self._tender.is_csv_due = True
        return seq

    def retry(self) -> bool:
        """Try again after a fault; True when everything that waited is written."""
        return self._tender.retry()

    def sync(self) -> None:
        """Write what waits and make everything durable."""
        self._check_open()
        if self._outbox.drain():
            self._outbox.sync()

    # -- end ------------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._ended is not None:
            raise StorageError(f"facts of {self.run_dir} cannot be written: {self._ended}")

    def close(self) -> None:
        """Write what waits, fsync, join the thread, let the run directory go. Idempotent."""
        if self._ended is not None:
            return
        self._ended = "this writer is closed; open a new one"
        atexit.unregister(self.close)
        try:
            self._tender.stop()
        finally:
            _open.pop(self._key, None)
            self._ledger.close()
            if self._lock is not None:
                self._lock.release()

    def __enter__(self) -> FactsWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _abandon(self) -> None:
        """In a forked child: the files and their lock belong to the parent."""
        self._ended = (
            f"this process was forked from the one that writes them ({os.getppid()}); "
            "log from that one"
        )
        atexit.unregister(self.close)
        self._ledger.abandon()


def open_writer(run_dir: str | os.PathLike[str], *, rank: int = 0) -> FactsWriter | None:
    """The writer of this process for a run directory, where there is one."""
    return _open.get((os.path.realpath(run_dir), rank))


def _abandon_in_child() -> None:
    for writer in list(_open.values()):
        writer._abandon()
    _open.clear()


os.register_at_fork(after_in_child=_abandon_in_child)

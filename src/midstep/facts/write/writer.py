"""`FactsWriter` writes the facts of a run.

A record is with the kernel when `log` or `event` returns, so it survives the death of the process.
"""

from __future__ import annotations

import atexit
import os
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from struct import error as StructError  # noqa: N812 - an exception, named like one
from typing import Any

from midstep.core.errors import ConfigError, RunHeldError, StorageError
from midstep.core.ids import new_run_id
from midstep.core.media.media_value import MediaValue, scalars_of
from midstep.core.moments import LIFECYCLE, Moment
from midstep.core.standard_streams import print_notice
from midstep.facts.format.event_lines import encode_fields
from midstep.facts.format.paths import ensure_facts_dir
from midstep.facts.format.step_frames import FileHeader
from midstep.facts.liveness.run_lock import RunLock
from midstep.facts.write.flush_thread import FlushThread
from midstep.facts.write.media_writer import MediaWriter
from midstep.facts.write.record_files import FollowerQueue, RecordFiles
from midstep.facts.write.recovery import recover
from midstep.facts.write.value_checks import PLAIN_TYPES, DeviceScalar, ValueChecks
from midstep.facts.write.write_queue import WriteQueue

_open_writers: weakref.WeakValueDictionary[tuple[str, int], FactsWriter] = (
    weakref.WeakValueDictionary()
)
"""The open writers of this process, by the real path of the run directory and the rank."""


class FactsWriter:
    """Writes the facts of one run directory, from any thread of one process.

    Args:
        run_dir: the run directory; the writer creates `facts/` in it.
        run_id: the id of the run; by default the one on disk, or a new one.
        attempt: how often the run was started, from 1.
        rank: the number of this process in a distributed run. Rank 0 holds the lock of the run.
        timeline: how often the run was rewound. A row of a higher timeline replaces the row of a
            lower one for the same step.
        on_fault: called with the reason, once for each fault, when the disk refuses a write.

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
        # The lock of the run does not refuse this: a process that holds it gets it again.
        if self._key in _open_writers:
            raise RunHeldError(
                f"run directory {self.run_dir} is already being written by this process; "
                "use that writer, or close it first"
            )
        ensure_facts_dir(self.run_dir)
        self._lock = RunLock.acquire(self.run_dir) if rank == 0 else None
        try:
            recovered = recover(self.run_dir, rank=rank, attempt=attempt)
            header = FileHeader(run_id or recovered.run_id or new_run_id(), attempt, rank)
            self._files = RecordFiles(
                self.run_dir, header, last_seq=recovered.last_seq, layouts=recovered.layouts
            )
        except BaseException:
            if self._lock is not None:
                self._lock.release()
            raise
        self.run_id, self.attempt, self.rank = header.run_id, attempt, rank
        self._queue = WriteQueue(
            self._files, timeline=max(timeline, recovered.timeline), on_fault=on_fault
        )
        self._flush_thread = FlushThread(self.run_dir, self._files, self._queue)
        self._checks = ValueChecks(self._note_refusal)
        self._media: MediaWriter | None = None
        self._closed_reason: str | None = None
        _open_writers[self._key] = self
        atexit.register(self.close)  # a script that ends without `close` still writes its queue
        self._flush_thread.start()
        for note in recovered.notes:
            self.event(Moment.INTERVENTION, who="system", **note)

    # -- state ----------------------------------------------------------------------------------

    @property
    def seq(self) -> int:
        """The number of the last record that was accepted."""
        return self._queue.seq

    @property
    def written(self) -> int:
        """The number of the last record that is with the kernel."""
        return self._files.seq

    @property
    def timeline(self) -> int:
        """How often the run was rewound; part of every record."""
        return self._queue.timeline

    @timeline.setter
    def timeline(self, timeline: int) -> None:
        if not 0 <= timeline < 2**32:
            raise ConfigError(f"timeline must be from 0 to 2^32 - 1, got {timeline}")
        self._queue.timeline = int(timeline)

    @property
    def dropped(self) -> int:
        """Rows that were dropped because too many waited for the disk."""
        return self._queue.dropped

    @property
    def fault(self) -> str | None:
        """Why the disk refuses writes now; None if it does not."""
        return self._queue.fault

    @property
    def durability_lost(self) -> str | None:
        """Why some records may not survive a power cut (an fsync failed); None if all will."""
        return self._queue.durability_lost

    @property
    def is_closed(self) -> bool:
        """Whether the writer refuses new records. Queued ones may still be on their way."""
        return self._closed_reason is not None

    def subscribe(self) -> FollowerQueue:
        """A queue that gets every record from now on, once it is with the kernel."""
        return self._files.subscribe()

    def unsubscribe(self, queue: FollowerQueue) -> None:
        """Put no more records into this queue. Idempotent."""
        self._files.unsubscribe(queue)

    # -- scalars --------------------------------------------------------------------------------

    def log(self, step: int, **scalars: Any) -> None:
        """Record scalars of a step: numbers, or tensors with one element."""
        self.log_values(step, scalars)

    def log_values(self, step: int, values: Mapping[str, Any]) -> None:
        """Record a mapping of scalars and media. Anything else is left out, and a fact says so."""
        if self._closed_reason is not None or not values:
            self._check_open()
            return
        # The hot path (4.4 µs for eight scalars, bar 5): no copy of the mapping, no check per
        # value. `struct` refuses an invalid value, and the row is checked value by value then.
        if PLAIN_TYPES.issuperset(map(type, values.values())):
            try:
                if self._queue.put_row(step, tuple(values), values.values()):
                    return
            except (StructError, TypeError, OverflowError, UnicodeError, AttributeError):
                pass  # an invalid step, name or number: nothing was written, it is checked below
        self._log_carefully(step, values)

    def _log_carefully(self, step: Any, values: Mapping[str, Any]) -> None:
        number, scalars = self._checks.step(step), self._checks.scalars(scalars_of(values))
        if number is not None:
            self._log_media(number, values)
        if number is None or not scalars:
            return
        numbers = [value for value in scalars.values() if not isinstance(value, DeviceScalar)]
        # A value on a device makes the row wait, so that the training thread does not.
        is_ready = len(numbers) == len(scalars)
        if not (is_ready and self._queue.put_row(number, tuple(scalars), numbers)):
            self._queue.queue_row(number, tuple(scalars), scalars.values())
            if self._queue.is_queueing:
                self._flush_thread.wake()

    def _log_media(self, step: int, values: Mapping[str, Any]) -> None:
        """Record pictures, texts, histograms and tables."""
        for name, value in values.items():
            if type(value) is MediaValue and self.rank != 0:
                self._checks.refuse(str(name), "pictures, texts and tables are kept by rank 0 only")
            elif type(value) is MediaValue:
                if self._media is None:
                    self._media = MediaWriter(self.run_dir, self._checks.refuse)
                self._media.put(step, self.timeline, str(name), value)

    def _note_refusal(self, name: str, reason: str) -> None:
        # Also where the user looks: a value that vanishes would be searched for on the page.
        print_notice(f"log({name}=…) is not recorded: {reason}")
        self.event(
            Moment.INTERVENTION, who="system", kind="value_refused", name=name, reason=reason
        )

    # -- events ---------------------------------------------------------------------------------

    def event(self, moment: Moment | str, **fields: Any) -> int:
        """Record an event and return its number.

        Events of the lifecycle (all but steps and interventions) are synced to the disk too.
        """
        self._check_open()
        moment = Moment(moment)
        text = encode_fields(fields)
        seq = self._queue.put_event(moment, text, is_durable=moment in LIFECYCLE)
        if moment is Moment.EPOCH_END:
            self._flush_thread.is_csv_due = True
        return seq

    def retry(self) -> bool:
        """Try to write again after a fault; True if the queue is empty now."""
        return self._flush_thread.retry()

    def sync(self) -> None:
        """Write the queued records and sync everything to the disk."""
        self._check_open()
        if self._queue.drain():
            self._queue.sync()

    # -- end ------------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._closed_reason is not None:
            raise StorageError(f"facts of {self.run_dir} cannot be written: {self._closed_reason}")

    def close(self) -> None:
        """Write the queue, sync, stop the thread, release the run directory. Idempotent."""
        if self._closed_reason is not None:
            return
        if self._media is not None:  # before the facts close: it may have to note something there
            self._media.close()
        # Before the thread stops: no record may come after the queue was written for the last time.
        self._closed_reason = "this writer is closed; open a new one"
        atexit.unregister(self.close)
        try:
            self._flush_thread.stop()
        finally:
            _open_writers.pop(self._key, None)
            self._files.close()
            # Last: from here on another process may append to these files.
            if self._lock is not None:
                self._lock.release()

    def __enter__(self) -> FactsWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _abandon(self) -> None:
        """Close in a forked child, where files and lock belong to the parent.

        Two processes that append under one counter would give out every number twice.
        """
        self._closed_reason = (
            f"this process was forked from the one that writes them ({os.getppid()}); "
            "log from that one"
        )
        atexit.unregister(self.close)
        self._media = None  # its thread is in the parent
        self._files.abandon()


def open_writer(run_dir: str | os.PathLike[str], *, rank: int = 0) -> FactsWriter | None:
    """The writer that this process has open for a run directory; None if there is none."""
    return _open_writers.get((os.path.realpath(run_dir), rank))


def _abandon_in_child() -> None:
    for writer in list(_open_writers.values()):
        writer._abandon()
    _open_writers.clear()


os.register_at_fork(after_in_child=_abandon_in_child)

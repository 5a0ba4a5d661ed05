"""Writes records in order, and queues them while the disk is slow or refuses.

As long as the queue is empty, the caller writes its record itself. A value that is still on a
device, a write over 20 ms or an error of the disk makes records wait in a bounded queue. They are
written in order and in short turns, by one thread at a time: the flush thread and, once the disk
is fast again, callers too. Next to a caller that logs without a pause, the flush thread gets the
interpreter lock only for a row now and then, so it would not catch up alone. When the queue is
empty, callers write their records themselves again.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Collection
from time import monotonic, sleep, time
from typing import Any, NamedTuple

from midstep.core.errors import StorageError
from midstep.core.moments import Moment
from midstep.facts.format.event_lines import EventHeader, encode_fields
from midstep.facts.write.record_files import RecordFiles
from midstep.facts.write.value_checks import DeviceScalar

SLOW_WRITE_S = 0.020
"""A write that takes longer makes the records after it wait, so that the training does not."""
MOST_WAITING = 65_536
"""Rows that may wait. Further rows are dropped and counted; twice as many events may wait."""
MOST_VALUES_WAITING = 4_000_000
"""Values in all queued rows, about 200 MB. One row may have a hundred thousand values."""
TURN_RECORDS = 256
TURN_S = 0.002
"""How much a thread writes in one turn, before another thread may take over."""


class _Row(NamedTuple):
    step: int
    timeline: int
    wall: float
    mono: float
    names: tuple[str, ...]
    values: tuple[float | DeviceScalar, ...]

    @property
    def is_ready(self) -> bool:
        """Whether all values are numbers: none is still on a device."""
        return DeviceScalar not in map(type, self.values)

    def resolved(self) -> _Row:
        """The row with all values read from their devices; this may wait for a device."""
        values = (
            value.read() if isinstance(value, DeviceScalar) else value for value in self.values
        )
        return self._replace(values=tuple(values))

    def write(self, files: RecordFiles) -> None:
        files.write_row(*self)  # type: ignore[arg-type]  # resolved before it is written


class _Event(NamedTuple):
    head: EventHeader
    fields_text: str

    @property
    def is_ready(self) -> bool:
        return True

    def resolved(self) -> _Event:
        return self

    def write(self, files: RecordFiles) -> None:
        files.write_line(*self)


class WriteQueue:
    """The queue in front of the record files. All methods may be called from any thread.

    Two locks: `_order` guards the queue, and the files while the queue is empty. `_drainer` guards
    the files while records are queued. Whoever needs both takes `_drainer` first.
    """

    def __init__(
        self,
        files: RecordFiles,
        *,
        timeline: int,
        on_fault: Callable[[str], None] | None = None,
        slow_write_s: float = SLOW_WRITE_S,
    ) -> None:
        self._files, self._on_fault = files, on_fault
        self.slow_write_s = slow_write_s
        """A write that takes longer makes records wait."""
        self._order = threading.Lock()
        self._drainer = threading.Lock()
        self._waiting: deque[_Row | _Event] = deque()
        self._values_waiting = 0
        self._accepted_seq = files.seq
        self._slow_reason = ""
        self._last_write_s = 0.0
        self._is_slow_noted = False
        self._is_fault_reported = False
        self._last_fault: str | None = None
        self._dropped_noted = 0
        self.timeline = timeline
        self.is_queueing = False
        """Whether new records go through the queue."""
        self.dropped = 0
        self.fault: str | None = None
        self.durability_lost: str | None = None

    @property
    def seq(self) -> int:
        """The number of the last record that was accepted."""
        return self._accepted_seq if self.is_queueing else self._files.seq

    def __len__(self) -> int:
        return len(self._waiting)

    def put_row(self, step: int, names: tuple[str, ...], values: Collection[float]) -> bool:
        """Write a row now; False if it must wait: then call `queue_row`.

        Raises `TypeError`, `OverflowError` or `struct.error` if a name or a value is invalid.
        """
        with self._order:
            if self.is_queueing:  # queued records come first, in order
                return False
            mono = monotonic()
            try:
                self._files.write_row(step, self.timeline, time(), mono, names, values)
            except StorageError as error:
                self._set_fault(error)
                return False
            write_s = monotonic() - mono
            if write_s > self.slow_write_s:
                self._begin_slow(write_s)
        return True

    def queue_row(
        self, step: int, names: tuple[str, ...], values: Collection[float | DeviceScalar]
    ) -> None:
        """Append a checked row to the queue, or drop and count it if the queue is full.

        Then write some of the queue, unless the disk is slow or a value is on a device.
        """
        with self._order:
            has_room = self._values_waiting + len(names) <= MOST_VALUES_WAITING
            if has_room and len(self._waiting) < MOST_WAITING:
                row = _Row(step, self.timeline, time(), monotonic(), names, tuple(values))
                self._enqueue(row)
                self._values_waiting += len(names)
            else:
                self.dropped += 1
            can_drain = self._would_not_block()
        if can_drain:
            self._help_drain()
        self._report_fault()

    def put_event(self, moment: Moment, fields_text: str, *, is_durable: bool) -> int:
        """Write an event after all queued records, and return its number.

        If the disk refuses, the event is queued under that number and `fault` is set.
        """
        with self._order:
            head = self._files.head(moment, self.timeline)
            # The rows are synced before the event is written: after a power cut, no event may
            # exist without the rows before it.
            if is_durable and not self.is_queueing:
                self._note_failure(_sync_failure(self._files.sync_steps))
            if not self.is_queueing:
                try:
                    self._files.write_line(head, fields_text)
                except StorageError as error:
                    self._set_fault(error)
            if self.is_queueing:
                self._enqueue(_Event(head, fields_text))
            seq = self.seq
        if self.fault is not None:
            self._report_fault()
        elif (not self.is_queueing or self.drain()) and is_durable:
            self.sync()
        return seq

    def drain(self) -> bool:
        """Write the whole queue in order; False if the disk refuses."""
        while self.fault is None:
            with self._drainer:  # released after each turn, so that another thread may drain
                if self._write_some():
                    return True
        self._report_fault()
        return False

    def drain_some(self, *, is_helping: bool = False) -> bool:
        """Write one turn of the queue, unless another thread does; True if the queue is empty.

        With `is_helping`, stop before a write that would wait for a slow disk or a device.
        """
        # Another thread may take the lock between these two lines: then this one waits for a turn
        # of 2 ms, which is rare and harmless.
        if self._drainer.locked():
            return False
        with self._drainer:
            is_empty = self._write_some(is_helping=is_helping)
        self._report_fault()
        return is_empty

    def _help_drain(self) -> None:
        """Write one turn of the queue in a caller's thread, or give way to the draining thread."""
        if not self._drainer.locked():
            self.drain_some(is_helping=True)
        elif len(self._waiting) > MOST_WAITING // 2:
            # A caller that logs without a pause keeps the interpreter lock: the draining thread
            # would hardly run, and the queue would fill up.
            sleep(TURN_S)

    def _write_some(self, *, is_helping: bool = False) -> bool:
        end = monotonic() + TURN_S
        for _ in range(TURN_RECORDS):
            with self._order:
                if self.fault is not None or (is_helping and not self._would_not_block()):
                    return False
                if not self._waiting and not self._queue_summary():
                    self._end_queueing()
                    return True
            self._write_oldest()
            if monotonic() > end:
                break
        return False

    def _write_oldest(self) -> None:
        """Write the oldest record.

        It stays in the queue if the disk refuses, or if a signal raises before it is written.
        """
        seq = self._files.seq
        try:
            # Stored back, so that a retry does not read the device again.
            item = self._waiting[0] = self._waiting[0].resolved()
            started = monotonic()
            item.write(self._files)
        except StorageError as error:
            with self._order:
                self._set_fault(error)
            return
        finally:
            # The number tells whether it was written, also if Ctrl+C raised right after that:
            # kept in the queue it would be written twice.
            if self._files.seq != seq:
                del self._waiting[0]
        with self._order:
            if isinstance(item, _Row):
                self._values_waiting -= len(item.values)
                self._note_slow(started - item.mono)
            self._last_write_s = monotonic() - started
            if self._last_write_s <= self.slow_write_s:
                self._slow_reason = ""

    def sync(self) -> None:
        """Sync the files to the disk. A failure is recorded in a fact once, and not retried."""
        # Not under a lock: fsync may take seconds, and callers must be able to write meanwhile.
        failure = _sync_failure(self._files.sync)
        if failure is not None:
            with self._order:
                self._note_failure(failure)
            self.drain()

    def mark_fault(self, reason: str) -> None:
        """Queue all records, for a reason other than an error of a write: a moved folder."""
        with self._order:
            if self.fault is None:
                self._set_fault(StorageError(reason))
        self._report_fault()

    def retry(self) -> bool:
        """Try to write again after a fault; True if the queue is empty now."""
        with self._order:
            if self.fault is None:
                return True
            self._last_fault, self.fault = self.fault, None  # remembered for `writing_resumed`
        return self.drain()

    # -- called with `_order` held --------------------------------------------------------------

    def _enqueue(self, item: _Row | _Event) -> None:
        if len(self._waiting) >= 2 * MOST_WAITING:
            raise StorageError(
                f"{len(self._waiting)} records wait for the disk ({self.fault}), and the queue is "
                "full; make the disk writable"
            )
        self._begin_queueing()
        self._waiting.append(item)
        self._accepted_seq += 1

    def _begin_queueing(self) -> None:
        if not self.is_queueing:
            self.is_queueing, self._accepted_seq = True, self._files.seq

    def _end_queueing(self) -> None:
        # While writes are slow the queue stays in use, even if it is empty at the moment.
        self.is_queueing = bool(self._slow_reason)
        self._accepted_seq = self._files.seq
        self._is_fault_reported = False
        self._is_slow_noted = self._is_slow_noted and self.is_queueing

    def _would_not_block(self) -> bool:
        """Whether writing the oldest record waits neither for a slow disk nor for a device."""
        if self.fault is not None or self._last_write_s > self.slow_write_s:
            return False
        return not self._waiting or self._waiting[0].is_ready

    def _set_fault(self, error: StorageError) -> None:
        self._begin_queueing()
        self.fault = str(error)

    def _begin_slow(self, write_s: float) -> None:
        """Queue records until a write is fast again.

        The fact about it is written only if a record then waited over 20 ms. One fact for each slow
        write would record the scheduler of a busy machine.
        """
        self._begin_queueing()
        self._last_write_s = write_s
        self._slow_reason = (
            f"a write took {write_s * 1000:.0f} ms: records wait in memory until it is faster"
        )

    def _note_slow(self, waited_s: float) -> None:
        if self._slow_reason and waited_s > self.slow_write_s and not self._is_slow_noted:
            self._is_slow_noted = True
            self._enqueue_note(kind="durability_lost", reason=self._slow_reason)

    def _note_failure(self, failure: str | None) -> None:
        if failure is not None and self.durability_lost is None:
            self.durability_lost = failure
            self._enqueue_note(kind="durability_lost", reason=failure)

    def _queue_summary(self) -> bool:
        """Once the queue is empty, queue a fact about the fault before; True if there was one."""
        rows_dropped = self.dropped - self._dropped_noted
        if self._last_fault is None and rows_dropped == 0:
            return False
        reason, self._last_fault = self._last_fault, None
        self._dropped_noted = self.dropped
        self._enqueue_note(kind="writing_resumed", reason=reason, rows_dropped=rows_dropped)
        return True

    def _enqueue_note(self, **fields: Any) -> None:
        text = encode_fields({"who": "system", **fields})
        self._enqueue(_Event(self._files.head(Moment.INTERVENTION, self.timeline), text))

    # -- called without a lock ------------------------------------------------------------------

    def _report_fault(self) -> None:
        """Call `on_fault`, once for each fault. No lock is held: it may log or close the writer."""
        fault = self.fault
        if fault is None or self._is_fault_reported:
            return
        self._is_fault_reported = True
        if self._on_fault is not None:
            self._on_fault(fault)


def _sync_failure(sync: Callable[[], None]) -> str | None:
    """Why an fsync failed; None if it succeeded."""
    try:
        sync()
    except StorageError as error:
        return str(error)
    return None

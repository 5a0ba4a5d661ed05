"""Keeps records in order between the threads that give them and the disk that takes them.

As long as nothing waits, the caller writes. A value still on a device, a write over 20 ms or a
refusing disk makes records wait in a bounded queue; whoever calls `drain` writes them, in order,
and when none are left callers write again.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Collection
from time import monotonic, time
from typing import Any, NamedTuple

from midstep.core.errors import StorageError
from midstep.core.moments import Moment
from midstep.facts.ledger import Ledger
from midstep.facts.lines import Head, encode_fields
from midstep.facts.numbers import Deferred

__all__ = ["MOST_WAITING", "SLOW_WRITE_S", "Outbox"]

SLOW_WRITE_S = 0.020
MOST_WAITING = 65_536
"""Rows that may wait; further ones are dropped and counted. Events may wait in twice the number."""
MOST_VALUES_WAITING = 4_000_000
"""Values in all the rows that wait, some 200 MB: rows may have a hundred thousand each."""


class _Row(NamedTuple):
    step: int
    timeline: int
    wall: float
    mono: float
    names: tuple[str, ...]
    values: tuple[float | Deferred, ...]

    def resolved(self) -> _Row:
        """The row with the values that were on a device read from it."""
        values = (value.read() if isinstance(value, Deferred) else value for value in self.values)
        return self._replace(values=tuple(values))

    def write(self, ledger: Ledger) -> None:
        ledger.write_row(*self)  # type: ignore[arg-type]  # resolved before it is written


class _Event(NamedTuple):
    head: Head
    fields_text: str

    def resolved(self) -> _Event:
        return self

    def write(self, ledger: Ledger) -> None:
        ledger.write_line(*self)


class Outbox:
    """The queue in front of a ledger. All methods may be called from any thread."""

    def __init__(
        self, ledger: Ledger, *, timeline: int, on_fault: Callable[[str], None] | None = None
    ) -> None:
        self._ledger, self._on_fault = ledger, on_fault
        self._order = threading.Lock()  # the queue, and the files while nothing waits
        self._drainer = threading.Lock()  # the files while something waits
        self._waiting: deque[_Row | _Event] = deque()
        self._values_waiting = 0
        self._taken = ledger.seq
        self._slow_words = ""
        self._is_slow_told = False
        self._is_fault_told = False
        self._last_fault: str | None = None
        self._dropped_told = 0
        self.timeline = timeline
        self.is_waiting = False
        """Whether records go through the queue now."""
        self.dropped = 0
        self.fault: str | None = None
        self.durability_lost: str | None = None

    @property
    def seq(self) -> int:
        """The number of the last record taken in."""
        return self._taken if self.is_waiting else self._ledger.seq

    def __len__(self) -> int:
        return len(self._waiting)

    def put_row(self, step: int, names: tuple[str, ...], values: Collection[float]) -> bool:
        """Write a row at once; False when it has to wait, and `queue_row` must take it.

        Raises `TypeError`, `OverflowError` or `struct.error` when a name or a value is odd.
        """
        with self._order:
            if self.is_waiting:
                return False
            mono = monotonic()
            try:
                self._ledger.write_row(step, self.timeline, time(), mono, names, values)
            except StorageError as error:
                self._refuse(error)
                return False
            spent = monotonic() - mono
            if spent > SLOW_WRITE_S:
                self._go_slow(spent)
        return True

    def queue_row(
        self, step: int, names: tuple[str, ...], values: Collection[float | Deferred]
    ) -> None:
        """Let a checked row wait behind the others, or drop and count it when too many wait."""
        with self._order:
            has_room = self._values_waiting + len(names) <= MOST_VALUES_WAITING
            if has_room and len(self._waiting) < MOST_WAITING:
                row = _Row(step, self.timeline, time(), monotonic(), names, tuple(values))
                self._wait(row)
                self._values_waiting += len(names)
            else:
                self.dropped += 1
        self._tell_fault()

    def put_event(self, moment: Moment, fields_text: str, *, is_durable: bool) -> int:
        """Write an event behind all that waits, and return its number.

        When the disk refuses, it waits under that number and `fault` is set.
        """
        with self._order:
            head = self._ledger.head(moment, self.timeline)
            if is_durable and not self.is_waiting:
                self._note_failure(_sync_failure(self._ledger.sync_steps))
            if not self.is_waiting:
                try:
                    self._ledger.write_line(head, fields_text)
                except StorageError as error:
                    self._refuse(error)
            if self.is_waiting:
                self._wait(_Event(head, fields_text))
            seq = self.seq
        if self.fault is not None:
            self._tell_fault()
        elif (not self.is_waiting or self.drain()) and is_durable:
            self.sync()
        return seq

    def drain(self) -> bool:
        """Write what waits, in order. False when the disk refuses."""
        with self._drainer:
            while True:
                with self._order:
                    if self.fault is not None:
                        break
                    if not self._waiting and not self._queue_summary():
                        self.is_waiting = bool(self._slow_words)
                        self._taken = self._ledger.seq
                        self._is_fault_told = False
                        self._is_slow_told = self._is_slow_told and self.is_waiting
                        return True
                    item = self._waiting.popleft()
                self._write(item)
        self._tell_fault()
        return False

    def _write(self, item: _Row | _Event) -> None:
        """Write one waiting record, or put it back in front of the others."""
        seq = self._ledger.seq
        try:
            item = item.resolved()
            started = monotonic()
            item.write(self._ledger)
        except BaseException as error:
            with self._order:
                if self._ledger.seq == seq:
                    self._waiting.appendleft(item)
                if not isinstance(error, StorageError):
                    raise
                self._refuse(error)
            return
        with self._order:
            if isinstance(item, _Row):
                self._values_waiting -= len(item.values)
                self._tell_slow(started - item.mono)
            if monotonic() - started <= SLOW_WRITE_S:
                self._slow_words = ""

    def sync(self) -> None:
        """Make all that is written durable; a failure is said in a fact, once, and not retried."""
        failure = _sync_failure(self._ledger.sync)
        if failure is not None:
            with self._order:
                self._note_failure(failure)
            self.drain()

    def mark_fault(self, reason: str) -> None:
        """Let everything wait for a reason the disk did not give, such as a moved folder."""
        with self._order:
            if self.fault is None:
                self._refuse(StorageError(reason))
        self._tell_fault()

    def retry(self) -> bool:
        """Try again after a fault; True when nothing waits any more."""
        with self._order:
            if self.fault is None:
                return True
            self._last_fault, self.fault = self.fault, None
        return self.drain()

    # -- under the order lock -------------------------------------------------------------------

    def _wait(self, item: _Row | _Event) -> None:
        if len(self._waiting) >= 2 * MOST_WAITING:
            raise StorageError(
                f"{len(self._waiting)} records wait for the disk ({self.fault}) and no more are "
                "taken; make the disk writable"
            )
        self._begin_waiting()
        self._waiting.append(item)
        self._taken += 1

    def _begin_waiting(self) -> None:
        if not self.is_waiting:
            self.is_waiting, self._taken = True, self._ledger.seq

    def _refuse(self, error: StorageError) -> None:
        self._begin_waiting()
        self.fault = str(error)

    def _go_slow(self, spent_s: float) -> None:
        """Let records wait until a write is fast again; said once one has really waited."""
        self._begin_waiting()
        self._slow_words = (
            f"a write took {spent_s * 1000:.0f} ms: records wait in memory until it is faster"
        )

    def _tell_slow(self, waited_s: float) -> None:
        if self._slow_words and waited_s > SLOW_WRITE_S and not self._is_slow_told:
            self._is_slow_told = True
            self._wait_note(kind="durability_lost", reason=self._slow_words)

    def _note_failure(self, failure: str | None) -> None:
        if failure is not None and self.durability_lost is None:
            self.durability_lost = failure
            self._wait_note(kind="durability_lost", reason=failure)

    def _queue_summary(self) -> bool:
        """When all is written: queue a fact on what happened meanwhile. True when there is one."""
        rows_dropped = self.dropped - self._dropped_told
        if self._last_fault is None and rows_dropped == 0:
            return False
        reason, self._last_fault = self._last_fault, None
        self._dropped_told = self.dropped
        self._wait_note(kind="writing_resumed", reason=reason, rows_dropped=rows_dropped)
        return True

    def _wait_note(self, **fields: Any) -> None:
        text = encode_fields({"who": "system", **fields})
        self._wait(_Event(self._ledger.head(Moment.INTERVENTION, self.timeline), text))

    # -- outside all locks ----------------------------------------------------------------------

    def _tell_fault(self) -> None:
        """Tell the owner, once for each fault."""
        fault = self.fault
        if fault is None or self._is_fault_told:
            return
        self._is_fault_told = True
        if self._on_fault is not None:
            self._on_fault(fault)


def _sync_failure(sync: Callable[[], None]) -> str | None:
    """Why an fsync failed; None when it did not."""
    try:
        sync()
    except StorageError as error:
        return str(error)
    return None

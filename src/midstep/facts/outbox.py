"""Keeps records in order between the threads that give them and the disk that takes them.

As long as nothing waits, the caller writes. A value still on a device, a write over 20 ms or a
refusing disk makes records wait in a bounded queue. They are written in order and in short turns,
one thread at a time: by the writer's own thread, and once the disk is fast again also by callers,
since a thread beside a busy one gets to write only a row now and then. When none are left callers
write their own again.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Collection
from time import monotonic, sleep, time
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
TURN_RECORDS = 256
TURN_S = 0.002
"""How much of what waits a thread writes before another may."""


class _Row(NamedTuple):
    step: int
    timeline: int
    wall: float
    mono: float
    names: tuple[str, ...]
    values: tuple[float | Deferred, ...]

    @property
    def is_ready(self) -> bool:
        """Whether no value is on a device."""
        return Deferred not in map(type, self.values)

    def resolved(self) -> _Row:
        """The row with the values that were on a device read from it."""
        values = (value.read() if isinstance(value, Deferred) else value for value in self.values)
        return self._replace(values=tuple(values))

    def write(self, ledger: Ledger) -> None:
        ledger.write_row(*self)  # type: ignore[arg-type]  # resolved before it is written


class _Event(NamedTuple):
    head: Head
    fields_text: str

    @property
    def is_ready(self) -> bool:
        return True

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
        self._last_write_s = 0.0
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
        """Let a checked row wait behind the others, or drop and count it when too many wait.

        Then help to write them, unless the disk is slow.
        """
        with self._order:
            has_room = self._values_waiting + len(names) <= MOST_VALUES_WAITING
            if has_room and len(self._waiting) < MOST_WAITING:
                row = _Row(step, self.timeline, time(), monotonic(), names, tuple(values))
                self._wait(row)
                self._values_waiting += len(names)
            else:
                self.dropped += 1
            may_help = self._may_help()
        if may_help:
            self._help()
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
        while self.fault is None:
            with self._drainer:
                if self._write_some():
                    return True
        self._tell_fault()
        return False

    def take_turn(self, *, is_helping: bool = False) -> bool:
        """Write some of what waits, unless another thread does. True when nothing is left.

        Who is helping stops before a slow disk or a value on a device.
        """
        if self._drainer.locked():
            return False
        with self._drainer:
            is_empty = self._write_some(is_helping=is_helping)
        self._tell_fault()
        return is_empty

    def _help(self) -> None:
        """Write some of what waits; when another thread does and very much waits, let it."""
        if not self._drainer.locked():
            self.take_turn(is_helping=True)
        elif len(self._waiting) > MOST_WAITING // 2:
            sleep(TURN_S)  # else it gets the interpreter for a row now and then

    def _write_some(self, *, is_helping: bool = False) -> bool:
        end = monotonic() + TURN_S
        for _ in range(TURN_RECORDS):
            with self._order:
                if self.fault is not None or (is_helping and not self._may_help()):
                    return False
                if not self._waiting and not self._queue_summary():
                    self._end_waiting()
                    return True
            self._write_oldest()
            if monotonic() > end:
                break
        return False

    def _write_oldest(self) -> None:
        """Write the oldest record. It waits on when that fails, or a signal raises before it."""
        seq = self._ledger.seq
        try:
            item = self._waiting[0] = self._waiting[0].resolved()
            started = monotonic()
            item.write(self._ledger)
        except StorageError as error:
            with self._order:
                self._refuse(error)
            return
        finally:
            if self._ledger.seq != seq:
                del self._waiting[0]
        with self._order:
            if isinstance(item, _Row):
                self._values_waiting -= len(item.values)
                self._tell_slow(started - item.mono)
            self._last_write_s = monotonic() - started
            if self._last_write_s <= SLOW_WRITE_S:
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

    def _end_waiting(self) -> None:
        self.is_waiting = bool(self._slow_words)
        self._taken = self._ledger.seq
        self._is_fault_told = False
        self._is_slow_told = self._is_slow_told and self.is_waiting

    def _may_help(self) -> bool:
        """Whether a caller that writes the oldest record would wait for no disk and no device."""
        if self.fault is not None or self._last_write_s > SLOW_WRITE_S:
            return False
        return not self._waiting or self._waiting[0].is_ready

    def _refuse(self, error: StorageError) -> None:
        self._begin_waiting()
        self.fault = str(error)

    def _go_slow(self, spent_s: float) -> None:
        """Let records wait until a write is fast again; said once one has really waited."""
        self._begin_waiting()
        self._last_write_s = spent_s
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

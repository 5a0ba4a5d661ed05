"""Records that a writer tells a follower in its own process, once they are in the file."""

from __future__ import annotations

import threading
from typing import NamedTuple

from midstep.facts.frames import Layout

__all__ = ["MOST_BYTES", "Told", "ToldRecord"]

MOST_BYTES = 8 << 20
"""What may wait for a follower; beyond it records are left out, and it finds them on the disk."""


class ToldRecord(NamedTuple):
    """One record as it was written."""

    seq: int
    layout: Layout | None
    """Of a row; None for an event."""
    data: bytes
    """The frame of a row, or the line of an event with its newline."""


class Told:
    """What waits for one follower, in the order it was written.

    >>> told = Told()
    >>> told.tell(ToldRecord(1, None, b"{}"))
    >>> [record.seq for record in told.take()], told.take()
    ([1], [])
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._records: list[ToldRecord] = []
        self._bytes = 0

    @property
    def waiting_bytes(self) -> int:
        """How much waits."""
        return self._bytes

    def tell(self, record: ToldRecord) -> None:
        """Let a record wait, as long as not too much does."""
        with self._lock:
            if self._bytes < MOST_BYTES:
                self._records.append(record)
                self._bytes += len(record.data)

    def take(self) -> list[ToldRecord]:
        """All that waits; none of it waits any more."""
        with self._lock:
            records, self._records, self._bytes = self._records, [], 0
        return records

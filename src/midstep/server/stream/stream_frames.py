"""Frames of the stream: each is encoded once, and every viewer gets the same bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from midstep.control.capture.notices import CaptureNotice
from midstep.facts import EventRecord, FactsTail, LiveRows, StepRows
from midstep.server.auth.redaction import has_private, redact
from midstep.server.responses import json_bytes

Rows = StepRows | LiveRows
MAX_NUMBERS = 8192
"""Numbers in one scalars message. More rows become several messages, so that a frame stays small
next to the queue of a viewer (640 KiB)."""
FRAMES_AT_ONCE = 8
"""Frames that a reader of the disk holds in memory."""


@dataclass(frozen=True, kw_only=True)
class Frame:
    """Bytes ready to send, and what is needed to cut or replace them."""

    data: bytes
    key: str | None = None
    """A newer frame of the same key replaces this one. None for a durable frame, which is never
    replaced."""
    first_seq: int = 0
    last_seq: int = 0
    rows: tuple[Rows, ...] = ()
    """The rows of a scalars message, so that it can be cut."""

    def after(self, seq: int) -> tuple[Frame, ...]:
        """The part of a durable frame with sequence numbers above `seq`."""
        if self.first_seq > seq:
            return (self,)
        if self.last_seq <= seq:
            return ()
        return tuple(durable_frames(part for rows in self.rows for part in _cut(rows, seq)))


def event_bytes(message: dict[str, Any], *, identity: str | None = None) -> bytes:
    """A message as a server-sent event; a viewer continues after the last `identity` it got."""
    head = f"id: {identity}\n".encode() if identity is not None else b""
    return head + b"data: " + json_bytes(message) + b"\n\n"


def volatile_frame(key: str, message: dict[str, Any]) -> Frame:
    """A message of which only the newest counts."""
    return Frame(data=event_bytes(message), key=key)


def state_frame(state: dict[str, Any], dropped: int = 0) -> Frame:
    """The state of the run; only `dropped` differs between viewers."""
    return volatile_frame("state", {"type": "state", "state": state, "dropped": dropped})


def capture_frame(notice: CaptureNotice, timeline: int) -> Frame:
    """A capture that a viewer has subscribed to; only the newest of each id counts."""
    thinning = {"every": notice.every, "shown": notice.shown, "of": notice.of}
    message = {
        "type": "capture",
        "id": notice.id,
        "step": notice.step,
        "timeline": timeline,
        "etag": notice.etag,
        "bytes": notice.bytes,
        "thinning": thinning if notice.is_thinned else None,
    }
    return volatile_frame(f"capture {notice.id}", message)


def durable_frames(items: Iterable[EventRecord | Rows]) -> Iterator[Frame]:
    """Facts as frames; adjacent rows of one timeline share a frame."""
    adjacent: list[Rows] = []
    for item in items:
        if isinstance(item, EventRecord):
            yield from _scalars(adjacent)
            adjacent = []
            yield _event_frame(item)
            continue
        if adjacent and adjacent[-1].timeline != item.timeline:
            yield from _scalars(adjacent)
            adjacent = []
        adjacent.append(item)
    yield from _scalars(adjacent)


def _event_frame(item: EventRecord) -> Frame:
    # Every viewer gets the same bytes, so fields that only some may see are left out for all.
    record = json_bytes(redact(item.record)) if has_private(item.moment) else item.json()
    head = f'id: {item.timeline}.{item.seq}\ndata: {{"type":"event","seq":{item.seq},"record":'
    data = b"".join((head.encode(), record, b"}\n\n"))
    return Frame(data=data, first_seq=item.seq, last_seq=item.seq)


def _scalars(adjacent: Sequence[Rows]) -> Iterator[Frame]:
    """Frames of rows of one timeline, each small enough to send at once."""
    pending: list[Rows] = []
    space = MAX_NUMBERS
    for rows in adjacent:
        left: Rows | None = rows
        while left is not None:
            width = len(left.columns) + 1
            part, left = _split(left, max(1, space // width))
            pending.append(part)
            space -= width * len(part.step)
            if left is not None or space <= 0:
                yield _scalars_frame(pending)
                pending, space = [], MAX_NUMBERS
    if pending:
        yield _scalars_frame(pending)


def _scalars_frame(parts: Sequence[Rows]) -> Frame:
    """One message of rows that may have different columns; a missing value is null."""
    total = sum(len(rows.step) for rows in parts)
    columns: dict[str, list[Any]] = {}
    steps: list[int] = []
    for rows in parts:
        part_steps, part_columns = rows.listed()
        for name, values in part_columns.items():
            if name not in columns:
                columns[name] = [None] * total
            columns[name][len(steps) : len(steps) + len(values)] = values
        steps.extend(part_steps)
    first, last = parts[0].first_seq, parts[-1].last_seq
    message = {
        "type": "scalars",
        "first_seq": first,
        "last_seq": last,
        "timeline": parts[0].timeline,
        "step": steps,
        "columns": columns,
    }
    data = event_bytes(message, identity=f"{parts[0].timeline}.{last}")
    return Frame(data=data, first_seq=first, last_seq=last, rows=tuple(parts))


def _split(rows: Rows, count: int) -> tuple[Rows, Rows | None]:
    """The first `count` rows, and the rest."""
    if len(rows.step) <= count:
        return rows, None
    return rows.part(0, count), rows.part(count, len(rows.step))


def _cut(rows: Rows, seq: int) -> Iterator[Rows]:
    """The rows with sequence numbers above `seq`."""
    start = max(0, seq + 1 - rows.first_seq)
    if start < len(rows.step):
        yield rows.part(start, len(rows.step))


class FrameReader:
    """Reads durable frames after a sequence number from disk, a few at a time to bound memory.

    Args:
        run_dir: the run directory.
        after_seq: records up to this sequence number are skipped.
    """

    def __init__(self, run_dir: Path, *, after_seq: int) -> None:
        self._tail = FactsTail(run_dir, after_seq=after_seq)
        self._frames: Iterator[Frame] = iter(())

    def read(self) -> list[Frame]:
        """The next frames; empty when there are none yet. It blocks, so call it in a thread."""
        frames = list(islice(self._frames, FRAMES_AT_ONCE))
        if not frames:
            self._frames = durable_frames(self._tail.poll())
            frames = list(islice(self._frames, FRAMES_AT_ONCE))
        return frames

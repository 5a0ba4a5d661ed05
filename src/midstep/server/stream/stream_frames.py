"""Frames of the stream: each is encoded once, and the same bytes go to every viewer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from midstep.server.auth.redaction import has_private, redact
from midstep.server.responses import json_bytes

if TYPE_CHECKING:
    from midstep.facts import EventRecord, LiveRows, StepRows

    Rows = StepRows | LiveRows


MAX_NUMBERS = 8192
"""Numbers in one scalars message; a longer stretch becomes several."""


@dataclass(frozen=True, kw_only=True)
class Frame:
    """Bytes ready to be sent, and what is needed to cut or replace them."""

    data: bytes
    key: str | None = None
    """For volatile frames: a newer one of the same key replaces it. None: durable."""
    first_seq: int = 0
    last_seq: int = 0
    rows: tuple[Rows, ...] = ()
    """Behind a scalars message: its rows."""

    def behind(self, seq: int) -> tuple[Frame, ...]:
        """What of a durable frame lies behind `seq`."""
        if self.first_seq > seq:
            return (self,)
        if self.last_seq <= seq:
            return ()
        return tuple(durable_frames(part for rows in self.rows for part in _cut(rows, seq)))


def _event(message: dict[str, Any], *, identity: str | None = None) -> bytes:
    head = f"id: {identity}\n".encode() if identity is not None else b""
    return head + b"data: " + json_bytes(message) + b"\n\n"


def volatile_frame(key: str, message: dict[str, Any]) -> Frame:
    """A message of which only the latest counts."""
    return Frame(data=_event(message), key=key)


def state_frame(state: dict[str, Any], dropped: int = 0) -> Frame:
    """The state; `dropped` is the one thing that differs between viewers."""
    return volatile_frame("state", {"type": "state", "state": state, "dropped": dropped})


def durable_frames(items: Iterable[EventRecord | Rows]) -> Iterator[Frame]:
    """Facts as frames, neighbouring rows of one timeline joined."""
    from midstep.facts import EventRecord

    stretch: list[Rows] = []
    for item in items:
        if isinstance(item, EventRecord):
            yield from _scalars(stretch)
            stretch = []
            yield _event_frame(item)
            continue
        if stretch and stretch[-1].timeline != item.timeline:
            yield from _scalars(stretch)
            stretch = []
        stretch.append(item)
    yield from _scalars(stretch)


def _event_frame(item: EventRecord) -> Frame:
    # The same bytes go to every viewer, so what only some may see goes to none.
    record = json_bytes(redact(item.record)) if has_private(item.moment) else item.json()
    head = f'id: {item.timeline}.{item.seq}\ndata: {{"type":"event","seq":{item.seq},"record":'
    data = b"".join((head.encode(), record, b"}\n\n"))
    return Frame(data=data, first_seq=item.seq, last_seq=item.seq)


def _scalars(stretch: Sequence[Rows]) -> Iterator[Frame]:
    """Frames of a stretch of rows, each small enough to send at once."""
    held: list[Rows] = []
    space = MAX_NUMBERS
    for rows in stretch:
        left: Rows | None = rows
        while left is not None:
            width = len(left.columns) + 1
            part, left = _split(left, max(1, space // width))
            held.append(part)
            space -= width * len(part.step)
            if left is not None or space <= 0:
                yield _scalars_frame(held)
                held, space = [], MAX_NUMBERS
    if held:
        yield _scalars_frame(held)


def _scalars_frame(held: Sequence[Rows]) -> Frame:
    """One message over rows of perhaps several layouts; what a row lacks is null."""
    total = sum(len(rows.step) for rows in held)
    columns: dict[str, list[Any]] = {}
    steps: list[int] = []
    for rows in held:
        own_steps, own_columns = rows.listed()
        for name, values in own_columns.items():
            if name not in columns:
                columns[name] = [None] * total
            columns[name][len(steps) : len(steps) + len(values)] = values
        steps.extend(own_steps)
    first, last = held[0].first_seq, held[-1].last_seq
    message = {
        "type": "scalars",
        "first_seq": first,
        "last_seq": last,
        "timeline": held[0].timeline,
        "step": steps,
        "columns": columns,
    }
    data = _event(message, identity=f"{held[0].timeline}.{last}")
    return Frame(data=data, first_seq=first, last_seq=last, rows=tuple(held))


def _split(rows: Rows, count: int) -> tuple[Rows, Rows | None]:
    """The first `count` rows, and the rest."""
    if len(rows.step) <= count:
        return rows, None
    return rows.part(0, count), rows.part(count, len(rows.step))


def _cut(rows: Rows, seq: int) -> Iterator[Rows]:
    """What of `rows` lies behind `seq`."""
    start = max(0, seq + 1 - rows.first_seq)
    if start < len(rows.step):
        yield rows.part(start, len(rows.step))


FRAMES_AT_ONCE = 8


class FrameReader:
    """Durable frames behind a sequence number, a few at a time so that memory stays flat.

    Args:
        run_dir: the run directory.
        after_seq: records up to this number are not wanted.
    """

    def __init__(self, run_dir: Path, *, after_seq: int) -> None:
        from midstep.facts import FactsTail

        self._tail = FactsTail(run_dir, after_seq=after_seq)
        self._frames: Iterator[Frame] = iter(())

    def read(self) -> list[Frame]:
        """The next frames; empty when there are none yet. Call it in a thread."""
        found = list(islice(self._frames, FRAMES_AT_ONCE))
        if not found:
            self._frames = durable_frames(self._tail.poll())
            found = list(islice(self._frames, FRAMES_AT_ONCE))
        return found

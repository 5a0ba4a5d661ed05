"""What a writer does before it writes: cut torn tails, set damage aside, find the last number."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from struct import Struct
from typing import Any

from midstep.core.storage import (
    AppendFile,
    make_folder,
    remove_temporaries,
    replace_bytes,
    storage_error,
)
from midstep.facts.frames import LAYOUT
from midstep.facts.lines import EventsScanner
from midstep.facts.places import events_path, facts_dir, list_steps_files, steps_path
from midstep.facts.scan import Damage, Span, StepsScanner

__all__ = ["Recovered", "last_run_id", "recover"]

QUARANTINE_BYTES = 1 << 20
_ROW = Struct("<12xIQ")


@dataclass
class Recovered:
    """What was found on disk, now in order."""

    last_seq: int = 0
    timeline: int = 0
    run_id: str | None = None
    layouts: int = 0
    """The highest layout id in the steps file that will be continued."""
    notes: list[dict[str, Any]] = field(default_factory=list)
    """Facts to write about what was cut or set aside."""


def recover(run_dir: Path, *, rank: int, attempt: int) -> Recovered:
    """Put the files of a writer in order and say where its sequence goes on."""
    found = Recovered()
    if rank == 0:  # the holder of the lock: nobody else can be in the middle of a replace
        remove_temporaries(facts_dir(run_dir))
        remove_temporaries(facts_dir(run_dir) / "quarantine")
    events = events_path(run_dir, rank, attempt)
    _recover_events(events, found)
    steps = list_steps_files(run_dir, rank)
    if rank != 0:  # every other writer has its own sequence, hence looks at its own file only
        steps = [(number, path) for number, path in steps if number == attempt]
    current = steps_path(run_dir, rank, attempt)
    for _, path in steps:
        _recover_steps(path, found, is_current=path == current)
    return found


def last_run_id(run_dir: Path) -> str | None:
    """The id that the facts of a run name; None when they name none that can be read."""
    for line in EventsScanner(events_path(run_dir, 0, 0)).read():
        return str(line.record().get("run_id"))
    for _, path in list_steps_files(run_dir, 0):
        scanner = StepsScanner(path)
        next(scanner.read(), None)
        if scanner.header is not None:
            return scanner.header.run_id
    return None


def _recover_events(path: Path, found: Recovered) -> None:
    scanner = EventsScanner(path)
    last = None
    for line in scanner.read():
        last = line
        found.last_seq = max(found.last_seq, line.seq)
    if last is not None:
        record = last.record()
        found.run_id = record.get("run_id")
        found.timeline = max(found.timeline, int(record.get("timeline", 0)))
    _set_aside(path, scanner.damages, found)
    _cut_tail(path, scanner.offset, found)


def _recover_steps(path: Path, found: Recovered, *, is_current: bool) -> None:
    scanner = StepsScanner(path)
    for piece in scanner.read():
        for span in piece.spans:
            offset, size, what, frames = span
            if what < LAYOUT:
                last_row = offset + size * (frames - 1)
                timeline, seq = _ROW.unpack_from(piece.buffer, last_row)
                found.last_seq = max(found.last_seq, seq)
                found.timeline = max(found.timeline, timeline)
                if is_current:
                    found.layouts = max(found.layouts, what)
            elif what == LAYOUT and is_current:
                found.layouts = max(found.layouts, _highest_layout(piece.buffer, span))
    if scanner.header is not None:
        found.run_id = found.run_id or scanner.header.run_id
    _set_aside(path, scanner.damages, found)
    _cut_tail(path, scanner.offset, found)


def _highest_layout(buffer: bytes, span: Span) -> int:
    offset, size, _, frames = span
    offsets = range(offset, offset + size * frames, size)
    return max(int.from_bytes(buffer[at + 12 : at + 16], "little") for at in offsets)


def _set_aside(path: Path, damages: Iterable[Damage], found: Recovered) -> None:
    """Copy damaged bytes to `facts/quarantine`, once; they also stay where they are."""
    for damage in damages:
        copy = _quarantine_path(path, damage)
        if copy.exists():
            continue
        data = _bytes_at(path, damage)
        make_folder(copy.parent)
        replace_bytes(copy, data)
        found.notes.append(
            {
                "kind": "damaged_record",
                "file": path.name,
                "offset": damage.start,
                "bytes": damage.stop - damage.start,
                "kept_in": f"quarantine/{copy.name}",
            }
        )


def _quarantine_path(path: Path, damage: Damage) -> Path:
    return path.parent / "quarantine" / f"{path.name}.{damage.start}-{damage.stop}"


def _bytes_at(path: Path, damage: Damage) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(damage.start)
            return file.read(min(damage.stop - damage.start, QUARANTINE_BYTES))
    except OSError as error:
        raise storage_error(path, "read", error) from error


def _cut_tail(path: Path, end: int, found: Recovered) -> None:
    """Cut what stands behind the last whole record."""
    if not path.exists() or path.stat().st_size <= end:
        return
    file = AppendFile(path)
    try:
        cut = file.size - end
        file.truncate(end)
        file.sync()
    finally:
        file.close()
    found.notes.append({"kind": "torn_tail_cut", "file": path.name, "offset": end, "bytes": cut})

"""What a writer does first: cut torn tails, quarantine damage, find the last sequence number."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from struct import Struct
from typing import Any

from midstep.core.files.storage import (
    AppendFile,
    make_subfolder,
    remove_temporaries,
    replace_bytes,
    storage_errors,
)
from midstep.core.files.untrusted_files import open_plain
from midstep.facts.format.paths import events_path, facts_dir, list_steps_files, steps_path
from midstep.facts.format.scanners import DamagedBytes, EventsScanner, Span, StepsScanner
from midstep.facts.format.step_frames import LAYOUT

QUARANTINE_BYTES = 1 << 20
"""The most that is copied of one damaged part; the rest is still in the file."""
_ROW = Struct("<12xIQ")  # timeline and seq of a row frame


@dataclass
class RecoveredState:
    """What the files of a run hold, after they were repaired."""

    last_seq: int = 0
    timeline: int = 0
    run_id: str | None = None
    layouts: int = 0
    """The highest layout id in the steps file that the writer will continue."""
    notes: list[dict[str, Any]] = field(default_factory=list)
    """Facts to write about what was cut or quarantined."""


def recover(run_dir: Path, *, rank: int, attempt: int) -> RecoveredState:
    """Repair the files of a writer and find where its sequence continues."""
    state = RecoveredState()
    if rank == 0:  # it holds the lock, so nobody else is in the middle of a replace
        remove_temporaries(facts_dir(run_dir))
        quarantine = facts_dir(run_dir) / "quarantine"
        if not quarantine.is_symlink():
            remove_temporaries(quarantine)
    events = events_path(run_dir, rank, attempt)
    _recover_events(events, state)
    steps = list_steps_files(run_dir, rank)
    # Rank 0 counts on over all attempts, since they share one events file. Every other rank has
    # new files in each attempt and starts at 1 again.
    if rank != 0:
        steps = [(number, path) for number, path in steps if number == attempt]
    current = steps_path(run_dir, rank, attempt)
    for _, path in steps:
        _recover_steps(path, state, is_current=path == current)
    return state


def last_run_id(run_dir: Path) -> str | None:
    """The run id in the facts of a run; None if they name none that can be read."""
    for line in EventsScanner(events_path(run_dir, 0, 0)).read():
        return str(line.record().get("run_id"))
    for _, path in list_steps_files(run_dir, 0):
        scanner = StepsScanner(path)
        next(scanner.read(), None)
        if scanner.header is not None:
            return scanner.header.run_id
    return None


def _recover_events(path: Path, state: RecoveredState) -> None:
    scanner = EventsScanner(path)
    last = None
    for line in scanner.read():
        last = line
        state.last_seq = max(state.last_seq, line.seq)
    if last is not None:
        record = last.record()
        state.run_id = record.get("run_id")
        state.timeline = max(state.timeline, int(record.get("timeline", 0)))
    _quarantine(path, scanner.damages, state)
    _cut_tail(path, scanner.offset, state)


def _recover_steps(path: Path, state: RecoveredState, *, is_current: bool) -> None:
    scanner = StepsScanner(path)
    for chunk in scanner.read():
        for span in chunk.spans:
            offset, size, what, frames = span
            if what < LAYOUT:
                last_row = offset + size * (frames - 1)  # numbers rise within a file
                timeline, seq = _ROW.unpack_from(chunk.buffer, last_row)
                state.last_seq = max(state.last_seq, seq)
                state.timeline = max(state.timeline, timeline)
                if is_current:
                    state.layouts = max(state.layouts, what)
            elif what == LAYOUT and is_current:
                state.layouts = max(state.layouts, _highest_layout(chunk.buffer, span))
    if scanner.header is not None:
        state.run_id = state.run_id or scanner.header.run_id
    _quarantine(path, scanner.damages, state)
    _cut_tail(path, scanner.offset, state)


def _highest_layout(buffer: bytes, span: Span) -> int:
    offset, size, _, frames = span
    offsets = range(offset, offset + size * frames, size)
    return max(int.from_bytes(buffer[at + 12 : at + 16], "little") for at in offsets)


def _quarantine(path: Path, damages: Iterable[DamagedBytes], state: RecoveredState) -> None:
    """Copy damaged bytes to `facts/quarantine`, once; they also stay in the file."""
    # Removed from the file, they would move every later frame, and seals name their file offset.
    for damage in damages:
        copy = path.parent / "quarantine" / f"{path.name}.{damage.start}-{damage.stop}"
        if copy.exists():  # an earlier attempt copied it, and recorded it
            continue
        make_subfolder(path.parent, copy.parent.name)
        replace_bytes(copy, _read_damage(path, damage), mode=0o600)
        state.notes.append(
            {
                "kind": "damaged_record",
                "file": path.name,
                "offset": damage.start,
                "bytes": damage.stop - damage.start,
                "kept_in": f"quarantine/{copy.name}",
            }
        )


def _read_damage(path: Path, damage: DamagedBytes) -> bytes:
    with storage_errors(path, "read"), open_plain(path.parent, path.name) as file:
        file.seek(damage.start)
        return file.read(min(damage.stop - damage.start, QUARANTINE_BYTES))


def _cut_tail(path: Path, end: int, state: RecoveredState) -> None:
    """Cut the bytes after the last whole record."""
    if not path.exists() or path.stat().st_size <= end:
        return
    file = AppendFile(path)
    try:
        cut = file.size - end
        file.truncate(end)
        file.sync()
    finally:
        file.close()
    state.notes.append({"kind": "torn_tail_cut", "file": path.name, "offset": end, "bytes": cut})

"""What is known of one run directory without reading it again: its digest.

Each file is remembered by inode, size, time and the bytes before where reading stopped. One that
only grew is read on; one that was cut, replaced or written over is read anew.
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from zlib import crc32

from midstep.core import strict_json
from midstep.core.errors import FormatError, MidstepError
from midstep.facts.digest_events import EventsDigest
from midstep.facts.digest_history import read_history
from midstep.facts.digest_steps import StepsDigest
from midstep.facts.history import EpochHistory
from midstep.facts.labels import FILE as LABELS
from midstep.facts.labels import read_labels
from midstep.facts.plain import read_plain

__all__ = ["DELETING", "EVENTS", "WRONG", "RunDigest"]

FACTS = "facts"
EVENTS = "events.jsonl"
DELETING = "deleting.json"
"""In `facts/`: its deletion has begun."""
LINEAGE = "lineage.json"
TAIL_BYTES = 64
_NOT_PLAIN = -1
"""Instead of a size: of what is neither file nor folder."""
_FOLDERS = (".", "checkpoints", "figures", "artifacts")
"""What changes in these changes the run's size."""
_STEPS = re.compile(r"steps\.0\.(\d+)\.bin")
WRONG = (
    *(MidstepError, OSError, ValueError, KeyError, TypeError, AttributeError),
    *(OverflowError, RecursionError),
)
"""What a file raises that is none of ours, whoever wrote it."""

Stamp = list[int]


@dataclass
class RunDigest:
    """Plain values and the digests of the files; kept in the index."""

    stamps: dict[str, Stamp] = field(default_factory=dict)
    """Inode, size and time of each file when it was read last."""
    tails: dict[str, int] = field(default_factory=dict)
    """CRC of the bytes before where reading stopped."""
    events: EventsDigest = field(default_factory=EventsDigest)
    steps: dict[str, StepsDigest] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    """Why a file cannot be read."""
    tags: list[str] = field(default_factory=list)
    note: str = ""
    parent: str | None = None
    """Name of the directory it was forked from."""
    deleting: dict[str, Any] | None = None
    has_lease: bool = False
    disk_bytes: int | None = None
    """Of all files in the directory; None before they were counted."""
    history: bytes = b""
    """Packed; as far as `history_offset`."""
    history_offset: int = 0

    def update(self, folder: str) -> bool:
        """Look at the directory again; True when anything changed."""
        found = _facts_files(folder)
        beside = {name: _stamp(f"{folder}/{name}") for name in (LABELS, LINEAGE, *_FOLDERS)}
        self.has_lease = os.path.lexists(f"{folder}/lease.json")
        now = {**found, **{name: stamp for name, stamp in beside.items() if stamp}}
        if now == self.stamps and not self.errors:
            return False
        errors = dict(self.errors)
        for name in sorted(now.keys() | self.stamps.keys()):
            is_same = now.get(name) == self.stamps.get(name)
            if name not in _FOLDERS and (not is_same or name in errors):  # it may be mended
                self._reread(folder, name, now.get(name))
        if now == self.stamps and errors == self.errors:
            return False
        self.stamps, self.disk_bytes = now, None
        return True

    def _reread(self, folder: str, name: str, stamp: Stamp | None) -> None:
        self.errors.pop(name, None)
        try:
            if stamp is not None and stamp[1] == _NOT_PLAIN:
                raise FormatError(f"{name} is a link or no plain file, and is not opened")
            if name == LABELS:
                labels = read_labels(folder)
                self.tags, self.note = list(labels.tags), labels.note
            elif name == LINEAGE:
                self.parent = _parent(Path(folder)) if stamp else None
            elif name == DELETING:
                self.deleting = _deletion(Path(folder)) if stamp else None
            elif name == FACTS:
                if stamp is not None:
                    raise FormatError(f"facts cannot be read: {os.strerror(stamp[0])}")
            elif name == EVENTS:
                self._read_events(Path(folder), stamp)
            else:
                self._read_steps(Path(folder), name, stamp)
        except WRONG as error:
            self.errors[name] = f"{name}: {error}" if name not in str(error) else str(error)

    def _read_events(self, folder: Path, stamp: Stamp | None) -> None:
        path = folder / "facts" / EVENTS
        kept = self.events
        self.events = EventsDigest()  # what a file that cannot be read leaves
        if stamp is not None and self._goes_on(path, kept.offset, stamp):
            self.events = kept
        else:
            self.history, self.history_offset = b"", 0
        if stamp is None:
            return
        self.events.read(path)
        self.tails[EVENTS] = _tail(path, self.events.offset)

    def _read_steps(self, folder: Path, name: str, stamp: Stamp | None) -> None:
        path = folder / "facts" / name
        kept = self.steps.pop(name, None)
        if stamp is None:
            return
        goes_on = kept is not None and self._goes_on(path, kept.offset, stamp)
        made = kept if kept is not None and goes_on else StepsDigest()
        made.read(path)
        self.steps[name] = made
        self.tails[name] = _tail(path, made.offset)

    def _goes_on(self, path: Path, offset: int, stamp: Stamp) -> bool:
        """Whether what was read of the file still stands in it."""
        known = self.stamps.get(path.name)
        return (
            known is not None
            and known[0] == stamp[0]
            and known[1] < stamp[1]
            and offset <= stamp[1]
            and self.tails.get(path.name) == _tail(path, offset)
        )

    def ordered_steps(self) -> list[StepsDigest]:
        """Of each attempt, oldest first."""
        return [self.steps[name] for name in sorted(self.steps, key=_attempt)]

    def epochs(self, folder: str) -> EpochHistory:
        """The epochs of the run, read on where they were read before."""
        history = EpochHistory.unpack(self.history) if self.history else EpochHistory()
        if self.history_offset < self.events.offset:
            path = Path(folder) / "facts" / EVENTS
            self.history_offset = read_history(path, history, self.history_offset)
            self.history = history.pack()
        return history

    def as_json(self) -> dict[str, Any]:
        """All but the history, which is kept as bytes."""
        plain = ("stamps", "tails", "errors", "tags", "note", "parent", "deleting", "disk_bytes")
        return {
            **{name: getattr(self, name) for name in plain},
            "events": self.events.as_json(),
            "steps": {name: each.as_json() for name, each in self.steps.items()},
            "history_offset": self.history_offset,
        }

    @classmethod
    def of_json(cls, kept: dict[str, Any], history: bytes) -> RunDigest:
        """What `as_json` gave."""
        steps = {name: StepsDigest.of_json(each) for name, each in kept.pop("steps").items()}
        return cls(
            **{**kept, "events": EventsDigest(**kept["events"])}, steps=steps, history=history
        )


def _facts_files(folder: str) -> dict[str, Stamp]:
    """The facts that are digested, with their stamps."""
    found: dict[str, Stamp] = {}
    if os.path.islink(f"{folder}/{FACTS}"):  # noqa: PTH114 - thousands of times
        return {FACTS: [0, _NOT_PLAIN, 0]}
    try:
        with os.scandir(f"{folder}/{FACTS}") as entries:
            for entry in entries:
                name = entry.name
                if name in (EVENTS, DELETING) or _STEPS.fullmatch(name):
                    stamp = _stamp(entry.path)
                    if stamp is not None:
                        found[name] = stamp
    except FileNotFoundError:  # no facts yet
        return {}
    except OSError as error:  # not ours to read: that is told
        return {FACTS: [error.errno or 0, 0, 0]}
    return found


def _stamp(path: str) -> Stamp | None:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    is_plain = stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)
    return [found.st_ino, found.st_size if is_plain else _NOT_PLAIN, found.st_mtime_ns]


def _attempt(name: str) -> int:
    match = _STEPS.fullmatch(name)
    return int(match[1]) if match else 0


def _tail(path: Path, offset: int) -> int:
    with path.open("rb", buffering=0) as file:
        start = max(0, offset - TAIL_BYTES)
        return crc32(os.pread(file.fileno(), offset - start, start))


def _parent(folder: Path) -> str | None:
    """The directory that the first edge between two runs names."""
    kept = strict_json.loads(read_plain(folder / LINEAGE))
    for edge in kept["edges"]:
        if edge["kind"] != "timeline" and edge["parents"]:
            return str(edge["parents"][0])
    return None


def _deletion(folder: Path) -> dict[str, Any]:
    try:
        kept = strict_json.loads(read_plain(folder / "facts" / DELETING))
    except (OSError, FormatError):  # it was cut short: the mark itself says enough
        return {}
    return kept if isinstance(kept, dict) else {}

"""`RunSummary`: what the index remembers of one run directory.

For each file it keeps inode, size, time, and a CRC of the last bytes that were read. If the file
only grew, reading continues there. If it was cut, replaced or overwritten, it is read from the
beginning.
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
from midstep.core.errors import FormatError
from midstep.core.files.untrusted_files import FILE_ERRORS, open_in_folder, read_plain
from midstep.facts.format.paths import LARGEST_LINEAGE_BYTES, LINEAGE
from midstep.facts.index.epoch_history import EpochHistory
from midstep.facts.index.event_summary import EventSummary, read_history
from midstep.facts.index.labels import FILE as LABELS
from midstep.facts.index.labels import read_labels
from midstep.facts.index.step_summary import StepSummary

FACTS = "facts"
EVENTS = "events.jsonl"
DELETING = "deleting.json"
"""A file in `facts/` that says that the deletion of the run has begun."""
TAIL_BYTES = 64
_NOT_PLAIN = -1
"""The size of what is neither a regular file nor a folder."""
_FOLDERS = (".", "checkpoints", "figures", "artifacts")
"""Folders whose content counts for the size of the run."""
_STEPS = re.compile(r"steps\.0\.(\d{1,9})\.bin")
Stamp = list[int]


@dataclass
class RunSummary:
    """Plain values and the summaries of the files; stored in the cache file as JSON."""

    stamps: dict[str, Stamp] = field(default_factory=dict)
    """Inode, size and time of each file when it was last read."""
    tails: dict[str, int] = field(default_factory=dict)
    """For each file, the CRC of the last bytes that were read."""
    events: EventSummary = field(default_factory=EventSummary)
    steps: dict[str, StepSummary] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    """For each file that cannot be read, the reason."""
    tags: list[str] = field(default_factory=list)
    note: str = ""
    parent: str | None = None
    """Name of the directory that the run was forked from."""
    deleting: dict[str, Any] | None = None
    has_lease: bool = False
    disk_bytes: int | None = None
    """Size of all files in the directory; None until they are counted."""
    history: bytes = b""
    """The packed epoch history, up to `history_offset` of the events file."""
    history_offset: int = 0

    def update(self, folder: str) -> bool:
        """Read what changed in the directory; True if anything did."""
        facts = _facts_files(folder)
        stamps = {name: _stamp(f"{folder}/{name}") for name in (LABELS, LINEAGE, *_FOLDERS)}
        self.has_lease = os.path.lexists(f"{folder}/lease.json")
        now = {**facts, **{name: stamp for name, stamp in stamps.items() if stamp}}
        # A file with an error is read again each time: a repair may change neither its size nor its
        # time, as when only its permissions were wrong.
        if now == self.stamps and not self.errors:
            return False
        errors = dict(self.errors)
        for name in sorted(now.keys() | self.stamps.keys()):
            is_same = now.get(name) == self.stamps.get(name)
            if name not in _FOLDERS and (not is_same or name in errors):
                self._reread(folder, name, now.get(name))
        if now == self.stamps and errors == self.errors:
            return False
        self.stamps, self.disk_bytes = now, None
        return True

    def _reread(self, folder: str, name: str, stamp: Stamp | None) -> None:
        self.errors.pop(name, None)
        try:
            if stamp is not None and stamp[1] == _NOT_PLAIN:
                raise FormatError(f"{name} is a link or not a regular file, so it is not opened")
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
        except FILE_ERRORS as error:
            self.errors[name] = f"{name}: {error}" if name not in str(error) else str(error)

    def _read_events(self, folder: Path, stamp: Stamp | None) -> None:
        path = folder / "facts" / EVENTS
        events = self.events
        self.events = EventSummary()  # this empty one stays if the file cannot be read
        if stamp is not None and self._only_grew(path, events.offset, stamp):
            self.events = events
        else:
            self.history, self.history_offset = b"", 0
        if stamp is None:
            return
        self.events.read(path)
        self.tails[EVENTS] = _tail_crc(path, self.events.offset)

    def _read_steps(self, folder: Path, name: str, stamp: Stamp | None) -> None:
        path = folder / "facts" / name
        known = self.steps.pop(name, None)
        if stamp is None:
            return
        only_grew = known is not None and self._only_grew(path, known.offset, stamp)
        summary = known if known is not None and only_grew else StepSummary()
        summary.read(path)
        self.steps[name] = summary
        self.tails[name] = _tail_crc(path, summary.offset)

    def _only_grew(self, path: Path, offset: int, stamp: Stamp) -> bool:
        """Whether the file still begins with the bytes that were read from it."""
        # The last 64 bytes stand for all before them: to compare more would cost what the summary
        # saves.
        known = self.stamps.get(path.name)
        return (
            known is not None
            and known[0] == stamp[0]
            and known[1] < stamp[1]
            and offset <= stamp[1]
            and self.tails.get(path.name) == _tail_crc(path, offset)
        )

    def ordered_steps(self) -> list[StepSummary]:
        """The steps files, one for each attempt, oldest first."""
        return [self.steps[name] for name in sorted(self.steps, key=_attempt)]

    def epochs(self, folder: str) -> EpochHistory:
        """The epoch history of the run, continued where it was last read."""
        history = EpochHistory.unpack(self.history) if self.history else EpochHistory()
        if self.history_offset < self.events.offset:
            path = Path(folder) / "facts" / EVENTS
            self.history_offset = read_history(path, history, self.history_offset)
            self.history = history.pack()
        return history

    def as_json(self) -> dict[str, Any]:
        """Everything except the history, which is stored as bytes, and the lease."""
        values = {
            **vars(self),
            "events": vars(self.events),
            "steps": {name: vars(each) for name, each in self.steps.items()},
        }
        del values["history"], values["has_lease"]  # a lease is read from the disk each time
        return values

    @classmethod
    def of_json(cls, values: dict[str, Any], history: bytes) -> RunSummary:
        """A summary from the result of `as_json`."""
        steps = {name: StepSummary.of_json(each) for name, each in values.pop("steps").items()}
        summary = cls(
            **{**values, "events": EventSummary(**values["events"])}, steps=steps, history=history
        )
        _check_types(summary)
        _check_types(summary.events)
        for each in steps.values():
            _check_types(each)
        return summary


def _check_types(summary: Any) -> None:
    """Raise if a field of a cached summary has another type than in a new one."""
    for name, default in vars(type(summary)()).items():
        value = getattr(summary, name)
        if default is not None and type(value) is not type(default):
            raise FormatError(f"{name} is {type(value).__name__}")


def _facts_files(folder: str) -> dict[str, Stamp]:
    """The facts files that are summarised, with their stamps."""
    stamps: dict[str, Stamp] = {}
    if os.path.islink(f"{folder}/{FACTS}"):  # noqa: PTH114 - thousands of times
        return {FACTS: [0, _NOT_PLAIN, 0]}
    try:
        with os.scandir(f"{folder}/{FACTS}") as entries:
            for entry in entries:
                name = entry.name
                if name in (EVENTS, DELETING) or _STEPS.fullmatch(name):
                    stamp = _stamp(entry.path)
                    if stamp is not None:
                        stamps[name] = stamp
    except FileNotFoundError:  # no facts yet
        return {}
    except OSError as error:  # not ours to read: the row of the run says so
        return {FACTS: [error.errno or 0, 0, 0]}
    return stamps


def _stamp(path: str) -> Stamp | None:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    is_plain = stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)
    return [status.st_ino, status.st_size if is_plain else _NOT_PLAIN, status.st_mtime_ns]


def _attempt(name: str) -> int:
    match = _STEPS.fullmatch(name)
    return int(match[1]) if match else 0


def _tail_crc(path: Path, offset: int) -> int:
    descriptor = open_in_folder(path)
    try:
        start = max(0, offset - TAIL_BYTES)
        return crc32(os.pread(descriptor, offset - start, start))
    finally:
        os.close(descriptor)


def _parent(folder: Path) -> str | None:
    """The directory that the first fork or merge in the lineage names."""
    lineage = strict_json.loads(read_plain(folder / LINEAGE, LARGEST_LINEAGE_BYTES))
    for edge in lineage["edges"]:
        if edge["kind"] != "timeline" and edge["parents"]:
            return str(edge["parents"][0])
    return None


def _deletion(folder: Path) -> dict[str, Any]:
    try:
        mark = strict_json.loads(read_plain(folder / "facts" / DELETING))
    except (OSError, FormatError):  # cut short: that the file exists says enough
        return {}
    return mark if isinstance(mark, dict) else {}

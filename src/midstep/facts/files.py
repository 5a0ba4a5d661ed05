"""The files of one writer's facts, looked at again and again: which changed, and what is wrong."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from midstep.facts.columns import StepsFile
from midstep.facts.lines import SCHEMA_VERSION, EventsScanner, Line
from midstep.facts.places import events_path, facts_dir, list_events_files, list_steps_files

__all__ = ["FactsFiles"]

FOLDER_SETTLES_NS = 2_000_000_000
"""Younger than this, a folder's time says little: the clock of file times is coarse."""

Stamp = tuple[int, int, int]


class FactsFiles:
    """Opens the files of one rank as they appear and reads on in those that grew."""

    def __init__(self, run_dir: str | Path, *, rank: int = 0) -> None:
        self._run_dir, self._rank = Path(run_dir), rank
        self._folder = facts_dir(run_dir)
        self._events: dict[Path, EventsScanner] = {}
        self._steps: dict[Path, StepsFile] = {}
        self._stamps: dict[Path, Stamp | None] = {}
        self._listed_at: Stamp | None = None
        self._other: list[str] = []
        if rank == 0:
            path = events_path(run_dir, 0, 0)
            self._events[path] = EventsScanner(path)

    @property
    def problems(self) -> list[str]:
        """What is damaged or unknown, one line each, naming the file."""
        found = list(self._other)
        files: list[EventsScanner | StepsFile] = [*self._events.values(), *self._steps.values()]
        for file in files:
            found += [
                f"{file.path.name}: bytes {damage.start} to {damage.stop} are damaged "
                "and were set aside; the other records are whole"
                for damage in file.damages
            ]
        for steps in self._steps.values():
            if steps.nameless:
                found.append(f"{steps.path.name}: the names of {steps.nameless} rows are damaged")
        return found

    def new_lines(self) -> Iterator[Line]:
        """Events that are new since the last call."""
        self._list_files()
        for path, scanner in list(self._events.items()):
            if not self._changed(path, scanner.offset):
                continue
            for line in self._events[path].read():
                if line.version == SCHEMA_VERSION:
                    yield line
                else:
                    self._refuse(line, path)

    def changed_steps(self) -> Iterator[StepsFile]:
        """Steps files that grew, or are new, since the last call."""
        self._list_files()
        for path, file in list(self._steps.items()):
            if self._changed(path, file.offset):
                yield self._steps[path]

    def _refuse(self, line: Line, path: Path) -> None:
        words = (
            f"{path.name}: record {line.seq} has schema version {line.version}; this midstep "
            f"reads version {SCHEMA_VERSION}. Open it with a newer midstep"
        )
        self._other.append(words)

    def _list_files(self) -> None:
        stamp = _stamp(self._folder, is_folder=True)
        if stamp is None or stamp == self._listed_at:
            return
        for _, path in list_steps_files(self._run_dir, self._rank):
            self._steps.setdefault(path, StepsFile(path))
        if self._rank:
            for rank, _, path in list_events_files(self._run_dir):
                if rank == self._rank:
                    self._events.setdefault(path, EventsScanner(path))
        is_settled = time.time_ns() - stamp[2] > FOLDER_SETTLES_NS
        self._listed_at = stamp if is_settled else None

    def _changed(self, path: Path, offset: int) -> bool:
        """Whether a file has another size than at the last look; one that shrank is read anew."""
        stamp, last = _stamp(path), self._stamps.get(path)
        if stamp == last:
            return False
        self._stamps[path] = stamp
        if stamp is None:
            return False
        if stamp[2] < offset or (last is not None and stamp[:2] != last[:2]):
            self._other.append(f"{path.name} was replaced while it was read; read again")
            if path in self._steps:
                self._steps[path] = StepsFile(path)
            else:
                self._events[path] = EventsScanner(path)
        return True


def _stamp(path: Path, *, is_folder: bool = False) -> Stamp | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return (found.st_dev, found.st_ino, found.st_mtime_ns if is_folder else found.st_size)

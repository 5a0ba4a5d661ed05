"""The files of one writer's facts, looked at again and again: which changed, and what is wrong."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from pathlib import Path

from midstep.facts.columns import StepsFile
from midstep.facts.lines import SCHEMA_VERSION, EventsScanner, Line
from midstep.facts.places import events_path, facts_dir, list_events_files, list_steps_files

__all__ = ["FactsFiles"]

FOLDER_SETTLES_S = 2.0
"""Younger than this, a folder's time may say little: on some disks file times are that coarse."""
TICK_S = 0.05
"""Younger than this it says little anywhere."""

IN_PLACE_S = 1.0
"""How often it is looked whether files held open have kept their names, and whether others came."""

Stamp = tuple[int, int, int]


class FactsFiles:
    """Opens the files of one rank as they appear and reads on in those that grew.

    Args:
        run_dir: the run directory.
        rank: whose facts.
        held: keep the files open until `close`, for whoever looks many times a second.
    """

    def __init__(self, run_dir: str | Path, *, rank: int = 0, held: bool = False) -> None:
        self._run_dir, self._rank, self._held = Path(run_dir), rank, held
        self._in_place_until: dict[Path, float] = {}
        self._folder = facts_dir(run_dir)
        self._events: dict[Path, EventsScanner] = {}
        self._steps: dict[Path, StepsFile] = {}
        self._stamps: dict[Path, Stamp | None] = {}
        self._listed: Stamp | None = None
        self._list_again_at = self._settled_until = 0.0
        self._other: list[str] = []
        if rank == 0:
            path = events_path(run_dir, 0, 0)
            self._events[path] = EventsScanner(path, held=held)

    def close(self) -> None:
        """Let the files go, where they are held open; a further look opens them again."""
        for events in self._events.values():
            events.close()
        for steps in self._steps.values():
            steps.close()

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
        for path, file in list(self._steps.items()):
            if self._changed(path, file.offset):
                yield self._steps[path]

    def _refuse(self, line: Line, path: Path) -> None:
        words = (
            f"{path.name}: record {line.seq} has schema version {line.version}; this midstep "
            f"reads version {SCHEMA_VERSION}. Open it with a newer midstep"
        )
        self._other.append(words)

    def find(self, *, anew: bool = False) -> None:
        """Look for new files: when the time of the folder changed, and until that has settled.

        Args:
            anew: list the folder whatever its time says.
        """
        if self._held and not anew and time.monotonic() < self._settled_until:
            return
        stamp = _stamp(self._folder, is_folder=True)
        is_known = stamp == self._listed and time.monotonic() < self._list_again_at
        if is_known:
            self._settled_until = time.monotonic() + IN_PLACE_S
        if stamp is None or (is_known and not anew):
            return
        for _, path in list_steps_files(self._run_dir, self._rank):
            if path not in self._steps:
                self._steps[path] = StepsFile(path, held=self._held)
        if self._rank:
            for rank, _, path in list_events_files(self._run_dir):
                if rank == self._rank and path not in self._events:
                    self._events[path] = EventsScanner(path, held=self._held)
        age_s, self._listed = time.time() - stamp[2] / 1e9, stamp
        if age_s < TICK_S:
            self._list_again_at = 0.0
        elif age_s < FOLDER_SETTLES_S:
            self._list_again_at = time.monotonic() + FOLDER_SETTLES_S
        else:
            self._list_again_at = math.inf

    def _changed(self, path: Path, offset: int) -> bool:
        """Whether a file has another size than at the last look; one that shrank is read anew.

        One that is held open tells that itself, and cheaper.
        """
        if self._held:
            now = time.monotonic()
            if offset and now < self._in_place_until.get(path, 0.0):
                return True
            self._in_place_until[path] = now + IN_PLACE_S
        stamp, last = _stamp(path), self._stamps.get(path)
        if stamp == last:
            return False
        self._stamps[path] = stamp
        if stamp is None:
            return False
        if stamp[2] < offset or (last is not None and stamp[:2] != last[:2]):
            self._other.append(f"{path.name} was replaced while it was read; read again")
            if path in self._steps:
                self._steps[path].close()
                self._steps[path] = StepsFile(path, held=self._held)
            else:
                self._events[path].close()
                self._events[path] = EventsScanner(path, held=self._held)
        return True


def _stamp(path: Path, *, is_folder: bool = False) -> Stamp | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return (found.st_dev, found.st_ino, found.st_mtime_ns if is_folder else found.st_size)

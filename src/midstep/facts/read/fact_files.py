"""The facts files of one rank: which of them grew, appeared or were replaced."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from midstep.facts.format.event_lines import SCHEMA_VERSION, EventLine
from midstep.facts.format.paths import events_path, facts_dir, list_events_files, list_steps_files
from midstep.facts.format.scanners import EventsScanner, GrowingFile
from midstep.facts.read.step_columns import StepsReader

FOLDER_SETTLES_S = 2.0
"""On some disks file times are this coarse: a younger folder may change without a new time."""
TICK_S = 0.05
"""On every disk a folder younger than this may change without a new time."""
CHECK_PATHS_S = 1.0
"""How often to check for new files, and that files held open still have their names."""

Stamp = tuple[int, int, int]


class FactsFiles:
    """Opens the files of one rank as they appear and continues in those that grew.

    Args:
        run_dir: the run directory.
        rank: whose facts.
        held: keep the files open until `close`, for readers that poll many times a second.
    """

    def __init__(self, run_dir: str | Path, *, rank: int = 0, held: bool = False) -> None:
        self._run_dir, self._rank, self._held = Path(run_dir), rank, held
        self._folder = facts_dir(run_dir)
        self._events: dict[Path, EventsScanner] = {}
        self._steps: dict[Path, StepsReader] = {}
        self._stamps: dict[Path, Stamp | None] = {}
        self._check_path_at: dict[Path, float] = {}
        self._listed: Stamp | None = None
        """The stamp of the folder when it was last listed."""
        self._list_again_at = self._check_folder_at = 0.0
        self._problems: list[str] = []
        if rank == 0:
            path = events_path(run_dir, 0, 0)
            self._events[path] = EventsScanner(path, held=held)

    def close(self) -> None:
        """Close the files if they are held open; the next read opens them again."""
        for file in self._all_files():
            file.close()

    def _all_files(self) -> list[GrowingFile]:
        return [*self._events.values(), *self._steps.values()]

    @property
    def problems(self) -> list[str]:
        """Damage and unknown versions, one line each with the name of the file."""
        problems = list(self._problems)
        for file in self._all_files():
            problems += [
                f"{file.path.name}: bytes {damage.start} to {damage.stop} are damaged "
                "and were set aside; the other records are whole"
                for damage in file.damages
            ]
        for steps in self._steps.values():
            if steps.rows_without_layout:
                problems.append(
                    f"{steps.path.name}: the names of {steps.rows_without_layout} rows are damaged"
                )
        return problems

    def new_lines(self) -> Iterator[EventLine]:
        """Events that are new since the last call."""
        for path, scanner in list(self._events.items()):
            if not self._changed(path, scanner.offset):
                continue
            for line in self._events[path].read():
                if line.version == SCHEMA_VERSION:
                    yield line
                else:
                    self._problems.append(
                        f"{path.name}: record {line.seq} has schema version {line.version}; this "
                        f"midstep reads version {SCHEMA_VERSION}. Open it with a newer midstep"
                    )

    def changed_steps(self) -> Iterator[StepsReader]:
        """Steps files that grew, or are new, since the last call."""
        for path, file in list(self._steps.items()):
            if self._changed(path, file.offset):
                yield self._steps[path]

    def rescan(self, *, force: bool = False) -> None:
        """Look for new files, if the time of the folder changed or is too young to be trusted.

        Args:
            force: list the folder in any case.
        """
        if self._held and not force and time.monotonic() < self._check_folder_at:
            return
        stamp = _file_stamp(self._folder, is_folder=True)
        is_known = stamp == self._listed and time.monotonic() < self._list_again_at
        if is_known:
            self._check_folder_at = time.monotonic() + CHECK_PATHS_S
        if stamp is None or (is_known and not force):
            return
        for _, path in list_steps_files(self._run_dir, self._rank):
            if path not in self._steps:
                self._steps[path] = StepsReader(path, held=self._held)
        if self._rank:
            for rank, _, path in list_events_files(self._run_dir):
                if rank == self._rank and path not in self._events:
                    self._events[path] = EventsScanner(path, held=self._held)
        # A file created within one tick of the clock after this listing would not change the time
        # of the folder. A young folder is therefore listed again, even if its time stays the same.
        age_s, self._listed = time.time() - stamp[2] / 1e9, stamp
        if age_s < TICK_S:
            self._list_again_at = 0.0
        elif age_s < FOLDER_SETTLES_S:
            self._list_again_at = time.monotonic() + FOLDER_SETTLES_S
        else:
            self._list_again_at = math.inf

    def _changed(self, path: Path, offset: int) -> bool:
        """Whether a file may have new records. A file that shrank or was replaced is read again.

        A file that is held open counts as changed: reading from its descriptor shows what is new
        and is cheaper than a `stat` of its path, which is only needed once a second.
        """
        if self._held:
            now = time.monotonic()
            if offset and now < self._check_path_at.get(path, 0.0):
                return True
            self._check_path_at[path] = now + CHECK_PATHS_S
        stamp, last = _file_stamp(path), self._stamps.get(path)
        if stamp == last:
            return False
        self._stamps[path] = stamp
        if stamp is None:
            return False
        # Facts files only grow: one that is shorter, or has another inode, is not the file we read.
        if stamp[2] < offset or (last is not None and stamp[:2] != last[:2]):
            self._problems.append(f"{path.name} was replaced while it was read; read again")
            files: dict[Path, Any] = self._steps if path in self._steps else self._events
            files[path].close()
            files[path] = type(files[path])(path, held=self._held)
        return True


def _file_stamp(path: Path, *, is_folder: bool = False) -> Stamp | None:
    try:
        status = path.lstat()
    except OSError:
        return None
    return (status.st_dev, status.st_ino, status.st_mtime_ns if is_folder else status.st_size)

"""Names of the facts files of a run, by attempt and rank."""

from __future__ import annotations

import re
from pathlib import Path

from midstep.core.files.storage import make_folder, make_subfolder

LINEAGE = "lineage.json"
"""A file in the run directory: which timelines branch off which."""
LARGEST_LINEAGE_BYTES = 16 << 20
"""About a hundred thousand changes; midstep writes no larger file."""
# Bounded numbers: a file name may have hundreds of digits.
_STEPS = re.compile(r"steps\.(\d{1,9})\.(\d{1,9})\.bin")
_EVENTS = re.compile(r"events\.(\d{1,9})-(\d{1,9})\.jsonl")


def facts_dir(run_dir: str | Path) -> Path:
    """The folder of a run's facts."""
    return Path(run_dir) / "facts"


def ensure_facts_dir(run_dir: str | Path) -> Path:
    """The folder of a run's facts; created for this user alone if it is missing.

    Raises:
        StorageError: there is a link in its place.
    """
    return make_subfolder(make_folder(run_dir), "facts")


def lock_path(run_dir: str | Path) -> Path:
    """The lock file of a run; the process that writes the run holds a lock on it."""
    return facts_dir(run_dir) / ".lock"


def events_path(run_dir: str | Path, rank: int, attempt: int) -> Path:
    """The events file of a writer. All attempts of rank 0 share one file."""
    name = "events.jsonl" if rank == 0 else f"events.{rank}-{attempt}.jsonl"
    return facts_dir(run_dir) / name


def steps_path(run_dir: str | Path, rank: int, attempt: int) -> Path:
    """The steps file of a writer.

    >>> steps_path("run", 0, 2).as_posix()
    'run/facts/steps.0.2.bin'
    """
    return facts_dir(run_dir) / f"steps.{rank}.{attempt}.bin"


def list_steps_files(run_dir: str | Path, rank: int) -> list[tuple[int, Path]]:
    """(attempt, path) of each steps file of a rank, oldest attempt first."""
    matches = ((_STEPS.fullmatch(entry.name), entry) for entry in _entries(run_dir))
    return sorted(
        (int(match[2]), entry) for match, entry in matches if match and int(match[1]) == rank
    )


def list_events_files(run_dir: str | Path) -> list[tuple[int, int, Path]]:
    """(rank, attempt, path) of each events file. Rank 0 has one, listed with attempt 0."""
    files = []
    for entry in _entries(run_dir):
        match = _EVENTS.fullmatch(entry.name)
        if match:
            files.append((int(match[1]), int(match[2]), entry))
        elif entry.name == "events.jsonl":
            files.append((0, 0, entry))
    return sorted(files)


def last_attempt(run_dir: str | Path) -> int:
    """The highest attempt that rank 0 has a steps file of; 0 for a new run."""
    return max((attempt for attempt, _ in list_steps_files(run_dir, 0)), default=0)


def _entries(run_dir: str | Path) -> list[Path]:
    folder = facts_dir(run_dir)
    return sorted(folder.iterdir()) if folder.is_dir() and not folder.is_symlink() else []

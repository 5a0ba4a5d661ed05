"""Make or open a run directory; find which run and attempt it contains."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path
from typing import Literal

from midstep.core.errors import ConfigError, StorageError
from midstep.core.ids import is_run_id, new_run_id, run_directory_name, slug
from midstep.core.moments import Moment
from midstep.facts import FactsReader, last_attempt, read_lease
from midstep.facts.liveness.run_lock import lock_holder

_TRIES = 1000
PRIVATE = 0o700
"""Only this user may look into a run: it holds the command line, settings and output of it."""


def new_directory(save_dir: Path, name: str, run_name: str | None, at: datetime) -> Path:
    """Make the run's directory: exactly `save_dir/run_name`, or a new one named by time and name.

    Two runs of one name that start in the same second get `…_name` and `…_name-2`.
    """
    if run_name is not None:
        return open_directory(save_dir / _checked(run_name))
    _make_parents(save_dir)
    # `mkdir` decides who gets a name: a check before it would race with another process.
    for attempt in range(1, _TRIES):
        suffix = "" if attempt == 1 else f"-{attempt}"
        directory = save_dir / (run_directory_name(name, at) + suffix)
        try:
            directory.mkdir(PRIVATE)
        except FileExistsError:
            continue
        except OSError as error:
            raise _refused(directory, error) from error
        return directory
    raise StorageError(f"{save_dir} already has {_TRIES} runs {name!r} of this second; try again")


def open_directory(directory: Path) -> Path:
    """Make `directory` if needed, and check that it is writable; it may have an earlier attempt."""
    _make_parents(directory, PRIVATE)
    # By the effective user, as writing is: a set-uid process has another real user.
    effective = os.access in os.supports_effective_ids
    if not os.access(directory, os.W_OK | os.X_OK, effective_ids=effective):
        raise _refused(directory, PermissionError("no permission to write"))
    return directory


def _make_parents(directory: Path, mode: int = 0o777) -> None:
    try:
        directory.mkdir(mode, parents=True, exist_ok=True)
    except OSError as error:
        raise _refused(directory, error) from error


def _checked(run_name: str) -> str:
    """The run name. One that must be changed is refused: a resume looks for exactly this name."""
    if slug(run_name) != run_name:
        raise ConfigError(
            f"run_name {run_name!r} cannot be a directory name; "
            f"use letters, digits, dot, dash, underscore, for example {slug(run_name)!r}"
        )
    return run_name


def _refused(directory: Path, error: OSError) -> StorageError:
    reason = error.strerror or str(error)
    refused = StorageError(
        f"cannot write the run directory {directory}: {reason}. "
        "Choose another folder with save_dir (--save-dir), or change the permissions."
    )
    refused.errno = error.errno
    return refused


Existing = Literal["refuse", "continue"]


def find_attempt(directory: Path, run_id: str | None, existing: Existing) -> tuple[str, int]:
    """The run's id and the number of this attempt; a directory with a run keeps its id.

    Args:
        directory: the run directory.
        run_id: chosen by a launcher; a new one if left out.
        existing: whether to refuse or to continue a run that is already there.
    """
    if run_id is not None and not is_run_id(run_id):
        raise ConfigError(
            f"{run_id!r} is not a run id; make one with midstep.core.ids.new_run_id()"
        )
    earlier = _earlier_attempt(directory)
    if earlier is None:
        return run_id or new_run_id(), 1
    known, attempt = earlier
    if run_id is not None and run_id != known:
        raise ConfigError(
            f"{directory} already holds the run {known}, not {run_id}; choose another run_name"
        )
    # If another process holds the run, opening the lease raises an error that names that process.
    if existing == "refuse" and lock_holder(directory) is None:
        raise ConfigError(
            f"{directory} already holds a run of {_earlier_steps(directory):,} steps; "
            'choose another run_name, or continue it with Run(existing="continue")'
        )
    return known, attempt + 1


def _earlier_attempt(directory: Path) -> tuple[str, int] | None:
    """Run id and number of the last attempt in this directory; None if it has no run."""
    if not (directory / "facts" / "events.jsonl").exists():
        return None
    # The header of a run that was killed early may be missing: then the directory counts as new.
    run_id = FactsReader(directory).header().get("run_id")
    return None if run_id is None else (str(run_id), max(1, last_attempt(directory)))


def _earlier_steps(directory: Path) -> int:
    """The finished steps of the run in this directory, from its end records or its lease."""
    ends = (Moment.TRAIN_END, Moment.EXCEPTION)
    events = FactsReader(directory).events()
    steps = [event.get("step") for event in events if event["moment"] in ends]
    steps.append((read_lease(directory) or {}).get("step"))  # a killed run has no end record
    return max((step for step in steps if isinstance(step, int)), default=0)

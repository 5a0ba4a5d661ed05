"""Where a run lives: its directory is allocated once, before anything is written into it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from midstep.core.errors import ConfigError, StorageError
from midstep.core.ids import run_directory_name, slug

if TYPE_CHECKING:
    from datetime import datetime

__all__ = ["allocate", "claim"]

_TRIES = 1000


def allocate(save_dir: Path, name: str, run_name: str | None, at: datetime) -> Path:
    """Make the run's directory: exactly `save_dir/run_name`, or a new one named by time and name.

    Two runs of one name that start in the same second get `…_name` and `…_name-2`.
    """
    if run_name is not None:
        return claim(save_dir / _checked(run_name))
    _make_parents(save_dir)
    for attempt in range(1, _TRIES):
        suffix = "" if attempt == 1 else f"-{attempt}"
        directory = save_dir / (run_directory_name(name, at) + suffix)
        try:
            directory.mkdir()
        except FileExistsError:
            continue
        except OSError as error:
            raise _refused(directory, error) from error
        return directory
    raise StorageError(f"{save_dir} already has {_TRIES} runs {name!r} of this second; try again")


def claim(directory: Path) -> Path:
    """Make sure that `directory` is there and can be written; it may hold an earlier attempt."""
    _make_parents(directory)
    effective = os.access in os.supports_effective_ids
    if not os.access(directory, os.W_OK | os.X_OK, effective_ids=effective):
        raise _refused(directory, PermissionError("no permission to write"))
    return directory


def _make_parents(directory: Path) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _refused(directory, error) from error


def _checked(run_name: str) -> str:
    """A run name is one directory name; what would have to be changed is refused instead."""
    if slug(run_name) != run_name:
        raise ConfigError(
            f"run_name {run_name!r} is used as a directory name as it stands; "
            f"use letters, digits, dot, dash, underscore, for example {slug(run_name)!r}"
        )
    return run_name


def _refused(directory: Path, error: OSError) -> StorageError:
    reason = error.strerror or str(error)
    refused = StorageError(
        f"cannot write the run directory {directory}: {reason}. "
        "Choose another place with save_dir (--save-dir), or change who may write there."
    )
    refused.errno = error.errno
    return refused

"""Which folders under an outputs root are runs: found by listing, no link is followed."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from midstep.core.errors import ConfigError

__all__ = ["list_run_folders"]

DEPTH = 3
"""As in `outputs/multiruns/exp_…/run_…`."""
_MARKS = ("facts", ".hydra")
"""A folder that has one of these is a run."""
_STUDY = ("plan.json", "requests")
"""A folder that has both is a study of influence: it keeps facts too, and has a page of its own."""


def list_run_folders(root: str | os.PathLike[str]) -> list[str]:
    """The run directories under `root`, as paths relative to it; the root may be one itself.

    A run that is damaged or has not written yet is listed too. Nothing below a run is looked at,
    and no link is followed: what it leads to is either listed by its own name, or not under `root`.

    >>> import tempfile
    >>> root = Path(tempfile.mkdtemp())
    >>> (root / "runs" / "run_a" / "facts").mkdir(parents=True)
    >>> list_run_folders(root)
    ['runs/run_a']
    """
    folder = os.fspath(root)
    if not Path(folder).is_dir():
        raise ConfigError(f"{folder} is not a folder; name the one your runs are in")
    return sorted(_below(folder, "", DEPTH))


def _below(folder: str, prefix: str, depth: int) -> Iterator[str]:
    try:
        entries = list(os.scandir(folder))
    except OSError:  # gone in the meantime, or not ours to read: nothing can be listed in it
        return
    for entry in entries:
        if entry.name.startswith(".") or not entry.is_dir(follow_symlinks=False):
            continue
        if _is_run(entry.path):
            if not _is_study(entry.path):
                yield prefix + entry.name
        elif depth > 1:
            yield from _below(entry.path, f"{prefix}{entry.name}/", depth - 1)


def _is_run(folder: str) -> bool:
    return any(_has(f"{folder}/{mark}") for mark in _MARKS)


def _is_study(folder: str) -> bool:
    return all(os.path.lexists(f"{folder}/{mark}") for mark in _STUDY)


def _has(path: str) -> bool:
    """Whether there is a folder, or a link in its place: such a run is listed as damaged."""
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return False
    return stat.S_ISDIR(mode) or stat.S_ISLNK(mode)

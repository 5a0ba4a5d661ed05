"""Finds and makes the folders of sweeps: `outputs/multiruns/exp_<time>_<name>/`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from midstep.core.errors import ConfigError, FormatError, StorageError
from midstep.core.ids import slug
from midstep.loops.sweep.plan import PLAN, SweepPlan, read_plan

DEFAULT_SWEEPS = Path("outputs/multiruns")
DEPTH = 2
"""How deep sweeps lie in an outputs folder: `outputs/multiruns/exp_…`."""
_TRIES = 100


def list_sweeps(root: Path) -> list[Path]:
    """The folders of sweeps under `root`, the newest first. No link is followed."""
    folders = sorted(_below(os.fspath(root), DEPTH), key=os.path.basename, reverse=True)
    return [Path(folder) for folder in folders]


def find_sweep(name: str, root: Path = DEFAULT_SWEEPS) -> Path:
    """The folder that `name` means: a path, a folder's name, or the id or name of a sweep."""
    if name and (Path(name) / PLAN).is_file():
        return Path(name)
    matches = [folder for folder in list_sweeps(root) if name in _names(folder)]
    if not matches:
        raise ConfigError(f"no sweep {name} in {root}; list all with: midstep sweep ls")
    if len(matches) > 1:
        folders = ", ".join(folder.name for folder in matches)
        raise ConfigError(f"{name} names {len(matches)} sweeps: {folders}; give the folder's name")
    return matches[0]


def new_sweep_folder(root: Path, name: str, at: datetime) -> Path:
    """Make the folder of a new sweep."""
    stem = f"exp_{at.astimezone(UTC):%Y%m%dT%H%M%SZ}_{slug(name)}"
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _cannot_make(root, error) from error
    for attempt in range(1, _TRIES):
        folder = root / (stem if attempt == 1 else f"{stem}-{attempt}")
        try:
            folder.mkdir(0o700)
        except FileExistsError:
            continue
        except OSError as error:
            raise _cannot_make(folder, error) from error
        return folder
    raise StorageError(f"{root} already has {_TRIES} sweeps {name!r} of this second; try again")


def _cannot_make(folder: Path, error: OSError) -> StorageError:
    return StorageError(
        f"cannot make the folder {folder}: {error.strerror or error}; choose another one with "
        "hydra.sweep.dir=FOLDER"
    )


def find_same(root: Path, plan: SweepPlan) -> tuple[Path, SweepPlan] | None:
    """The newest sweep with the name, fixed overrides and axes of `plan`; values may differ."""
    for folder in list_sweeps(root):
        try:
            earlier = read_plan(folder)
        except (ConfigError, FormatError):  # damaged: it is listed as such, and not continued
            continue
        if _identity(earlier) == _identity(plan):
            return folder, earlier
    return None


def _identity(plan: SweepPlan) -> tuple[object, ...]:
    keys = sorted(axis.key for axis in plan.axes)
    return plan.name, keys, sorted(plan.fixed), plan.config_dir


def _names(folder: Path) -> set[str]:
    try:
        plan = read_plan(folder)
    except (ConfigError, FormatError):
        return {folder.name}
    return {folder.name, plan.id, plan.name}


def _below(folder: str, depth: int) -> Iterator[str]:
    if Path(folder, PLAN).is_file():
        yield folder
        return
    if depth == 0:
        return
    try:
        entries = list(os.scandir(folder))
    except OSError:  # removed in the meantime, or not ours to read
        return
    for entry in entries:
        if not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False):
            yield from _below(entry.path, depth - 1)

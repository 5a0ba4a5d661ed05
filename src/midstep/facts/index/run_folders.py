"""Finds run directories: under an outputs folder, of a sweep, or exactly those given."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from midstep.core import strict_json
from midstep.core.errors import ConfigError, FormatError
from midstep.core.files.untrusted_files import read_plain

ROOT_DEPTH = 3
"""How deep runs lie in an outputs folder: `outputs/multiruns/exp_…/run_…`."""
SWEEP_DEPTH = 2
LARGEST_PLAN_BYTES = 64 << 20
_MARKS = ("facts", ".hydra")
"""A folder that has one of these is a run."""
_STUDY = ("plan.json", "requests")
"""A folder that has both is a study of influence. It has facts too, but is not a run."""


def list_run_folders(root: str | os.PathLike[str]) -> list[str]:
    """The run directories under `root`, as paths relative to it.

    A run that is damaged or has not written yet is listed too. Folders inside a run are not
    searched. No link is followed: the folder it leads to is listed under its own name, or is not
    under `root`.

    >>> import tempfile
    >>> root = Path(tempfile.mkdtemp())
    >>> (root / "runs" / "run_a" / "facts").mkdir(parents=True)
    >>> list_run_folders(root)
    ['runs/run_a']
    """
    folder = os.fspath(root)
    if not Path(folder).is_dir():
        raise ConfigError(f"{folder} is not a folder; name the one your runs are in")
    return sorted(_runs_below(folder, depth=ROOT_DEPTH))


def discover_runs(
    *,
    sweep_dir: str | Path | None = None,
    run_dirs: Iterable[str | Path] | None = None,
) -> list[Path]:
    """The run directories of a sweep, of an outputs folder, or exactly those given.

    A run that is damaged or has not written yet is listed too; loading it raises an error that
    says what is wrong.

    Args:
        sweep_dir: a folder that contains run directories or links to them, or whose `plan.jsonl`
            names them.
        run_dirs: the run directories themselves.
    """
    if (sweep_dir is None) == (run_dirs is None):
        raise ConfigError("give either sweep_dir or run_dirs, for example sweep_dir='outputs/runs'")
    if run_dirs is not None:
        return [_existing(Path(path), "run directory") for path in run_dirs]
    folder = _existing(Path(str(sweep_dir)), "sweep directory")
    inside = _runs_below(os.fspath(folder), depth=SWEEP_DEPTH, follow_links=True)
    paths = [*(folder / path for path in inside), *_planned(folder)]
    # One run may be named twice, by its folder and by the plan: the first name is kept.
    unique = {path.resolve(): path for path in reversed(paths)}
    return sorted(unique.values(), key=_natural)


def _runs_below(
    folder: str, *, depth: int, follow_links: bool = False, prefix: str = ""
) -> Iterator[str]:
    """Paths of runs relative to `folder`, each after `prefix`."""
    try:
        entries = list(os.scandir(folder))
    except OSError:  # removed in the meantime, or not ours to read
        return
    for entry in entries:
        if entry.name.startswith(".") or not entry.is_dir(follow_symlinks=follow_links):
            continue
        path = prefix + entry.name
        if _is_run(entry.path):  # folders inside a run are not searched
            if not _is_study(entry.path):
                yield path
        elif depth > 1:
            yield from _runs_below(
                entry.path, depth=depth - 1, follow_links=follow_links, prefix=f"{path}/"
            )


def _is_run(folder: str) -> bool:
    return any(_has(f"{folder}/{mark}") for mark in _MARKS)


def _is_study(folder: str) -> bool:
    return all(os.path.lexists(f"{folder}/{mark}") for mark in _STUDY)


def _has(path: str) -> bool:
    """Whether there is a folder, or a link in place of it: such a run is listed as damaged."""
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return False
    return stat.S_ISDIR(mode) or stat.S_ISLNK(mode)


def _existing(path: Path, what: str) -> Path:
    if not path.is_dir():
        raise ConfigError(f"{what} {path} does not exist; list what is there with: midstep runs ls")
    return path


def _planned(folder: Path) -> Iterator[Path]:
    """Runs that the plan of a sweep names and that have begun; paths are relative to the plan."""
    try:
        plan = read_plain(folder / "plan.jsonl", LARGEST_PLAN_BYTES)
    except OSError:  # there is none, or midstep did not write it
        return
    for text in plan.decode("utf-8", "replace").splitlines():
        try:
            job = strict_json.loads(text)
        except FormatError:  # the torn last line of a plan that is being written
            continue
        name = job.get("run_dir") if isinstance(job, dict) else None
        if isinstance(name, str) and (folder / name).is_dir():
            yield folder / name


def _natural(path: Path) -> tuple[list[tuple[int, str]], str]:
    """A sort key that puts `job2` before `job10`."""
    parts = re.split(r"(\d+)", path.name)
    return [(int(part), "") if part.isdigit() else (-1, part) for part in parts], str(path)

"""Finds run directories."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from midstep.core.errors import ConfigError
from midstep.facts.places import facts_dir

__all__ = ["discover_runs"]


def discover_runs(
    *,
    sweep_dir: str | Path | None = None,
    run_dirs: Iterable[str | Path] | None = None,
) -> list[Path]:
    """The run directories of a sweep, of an outputs folder, or exactly those given.

    A run that is damaged or has not written yet is listed too; whoever loads it says why it
    cannot be used.

    Args:
        sweep_dir: a folder whose subfolders are runs, or whose `plan.jsonl` names them.
        run_dirs: the run directories themselves.
    """
    if (sweep_dir is None) == (run_dirs is None):
        raise ConfigError("give either sweep_dir or run_dirs, for example sweep_dir='outputs/runs'")
    if run_dirs is not None:
        return [_existing(Path(path), "run directory") for path in run_dirs]
    folder = _existing(Path(str(sweep_dir)), "sweep directory")
    found = [*_runs_below(folder, depth=2), *_planned(folder)]
    unique = {path.resolve(): path for path in reversed(found)}
    return sorted(unique.values(), key=_natural)


def _existing(path: Path, what: str) -> Path:
    if not path.is_dir():
        raise ConfigError(f"{what} {path} does not exist; list what is there with: midstep runs")
    return path


def _runs_below(folder: Path, *, depth: int) -> Iterator[Path]:
    for entry in folder.iterdir():
        if not entry.is_dir() or entry.name.startswith("."):
            continue
        if facts_dir(entry).is_dir() or (entry / ".hydra").is_dir():
            yield entry
        elif depth > 1:
            yield from _runs_below(entry, depth=depth - 1)


def _planned(folder: Path) -> Iterator[Path]:
    """Runs that the plan of a sweep names and that have begun; paths are relative to the plan."""
    plan = folder / "plan.jsonl"
    if not plan.is_file():
        return
    for text in plan.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            job = json.loads(text)
        except ValueError:  # the torn last line of a plan that is being written
            continue
        name = job.get("run_dir") if isinstance(job, dict) else None
        if isinstance(name, str) and (folder / name).is_dir():
            yield folder / name


def _natural(path: Path) -> tuple[list[tuple[int, str]], str]:
    """`job2` before `job10`."""
    parts = re.split(r"(\d+)", path.name)
    return [(int(part), "") if part.isdigit() else (-1, part) for part in parts], str(path)

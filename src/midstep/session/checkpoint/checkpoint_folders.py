"""Where checkpoints stand: their folders, the links to them, and which are old enough to go.

    checkpoints/120        the state after 120 steps
    checkpoints/80.t1      after 80 steps, once the run had been rewound (timeline 1)
    checkpoints/80.t1.2    the same step and timeline saved a second time
    last, best_val         links to one of them; model leads to best_val

The order is that of (timeline, step, copy), which the names alone tell. Needs no torch.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from midstep.core.errors import ConfigError, StorageError
from midstep.core.files.atomic_folders import (
    Chunks,
    add_folder,
    remove_folder,
    remove_temporary_folders,
    replace_link,
)
from midstep.core.files.storage import storage_error, sync_folder

__all__ = ["FILES", "CheckpointFolders", "CheckpointName"]

STATE, TENSORS, MANIFEST = FILES = ("state.json", "tensors.safetensors", "manifest.json")
"""The files of a checkpoint, in the order in which they are written."""
log = logging.getLogger("midstep.session")
_NAME = re.compile(r"(0|[1-9]\d*)(?:\.t([1-9]\d*))?(?:\.([1-9]\d*))?")


class CheckpointName(NamedTuple):
    """A checkpoint's place in the order; the greatest is the newest."""

    timeline: int
    step: int
    copy: int = 1

    @property
    def name(self) -> str:
        """The name of its folder.

        >>> CheckpointName(0, 120).name, CheckpointName(1, 80, 2).name
        ('120', '80.t1.2')
        """
        timeline = f".t{self.timeline}" if self.timeline else ""
        return f"{self.step}{timeline}" + (f".{self.copy}" if self.copy > 1 else "")

    @classmethod
    def of(cls, name: str) -> CheckpointName | None:
        """The place that a folder's name tells; None for a name we never give."""
        found = _NAME.fullmatch(name)
        if found is None:
            return None
        step, timeline, copy = (int(part or 0) for part in found.groups())
        made = cls(timeline, step, copy or 1)
        return made if made.name == name else None


class CheckpointFolders:
    """The checkpoints of one run directory, as folders. One process writes, any may read.

    Args:
        run_dir: the run directory.
        keep: how many to keep; those that links lead to stay beyond that number.
    """

    def __init__(self, run_dir: str | os.PathLike[str], *, keep: int = 10) -> None:
        if keep < 1:
            raise ConfigError(f"keep must be at least 1, got {keep}; one is needed to resume")
        self.run_dir, self.keep = Path(run_dir), keep
        self.folder = self.run_dir / "checkpoints"

    def places(self) -> list[CheckpointName]:
        """Every checkpoint there is, newest first."""
        try:
            entries = list(self.folder.iterdir())
        except FileNotFoundError:
            return []
        except OSError as error:
            raise storage_error(self.folder, "read", error) from error
        folders = [entry for entry in entries if entry.is_dir() and not entry.is_symlink()]
        return sorted(
            (p for p in map(CheckpointName.of, (f.name for f in folders)) if p), reverse=True
        )

    def path(self, place: CheckpointName) -> Path:
        """The folder of a checkpoint."""
        return self.folder / place.name

    def find(self, step: int, timeline: int | None = None) -> CheckpointName:
        """The newest checkpoint of a step, in a timeline or in any."""
        places = self.places()
        for place in places:
            if place.step == step and timeline in (None, place.timeline):
                return place
        there = ", ".join(place.name for place in places) or "none at all"
        raise ConfigError(f"there is no checkpoint of step {step} in {self.folder}: {there}")

    def add(
        self, step: int, timeline: int, files: Mapping[str, Chunks], *, best: bool = False
    ) -> Path:
        """Write a checkpoint, let `last` lead to it, and remove what is no longer kept."""
        if not self.folder.is_dir():
            self._make_folder()
        self.remove_leftovers()
        same = [p for p in self.places() if (p.timeline, p.step) == (timeline, step)]
        place = CheckpointName(timeline, step, same[0].copy + 1 if same else 1)
        path = add_folder(self.path(place), files)
        self.link("last", path)
        if best:
            self.mark_best(path)
        self._remove(same)
        self._remove(self.places()[self.keep :])
        return path

    def _make_folder(self) -> None:
        """In the run directory, which is never made here: one that was moved away is missed."""
        try:
            self.folder.mkdir()
        except OSError as error:
            raise storage_error(self.folder, "create the folder", error) from error
        sync_folder(self.run_dir)

    def link(self, name: str, path: Path) -> None:
        """Let the link `name` in the run directory lead to a checkpoint."""
        replace_link(self.run_dir / name, f"{self.folder.name}/{path.name}")

    def mark_best(self, path: Path) -> None:
        """Let `best_val`, and through it `model`, lead to this checkpoint."""
        self.link("best_val", path)
        if not (self.run_dir / "model").is_symlink():
            replace_link(self.run_dir / "model", "best_val")

    def linked(self) -> set[str]:
        """Names of the checkpoints that links lead to."""
        return {
            link.readlink().name
            for link in (self.run_dir / "last", self.run_dir / "best_val")
            if link.is_symlink()
        }

    def _remove(self, places: list[CheckpointName]) -> None:
        """Remove checkpoints, but never what a link leads to or what is not exactly as we wrote."""
        kept = self.linked()
        for place in places:
            if place.name in kept:
                continue
            try:
                remove_folder(self.path(place), FILES)
            except (
                StorageError
            ) as error:  # the new checkpoint is safe, whatever becomes of an old one
                log.warning("an old checkpoint stays: %s", error)

    def remove_leftovers(self) -> list[str]:
        """Remove what a kill left behind; only for the one writer of the run to call."""
        return remove_temporary_folders(self.folder) + remove_temporary_folders(self.run_dir)

"""The folders of checkpoints, the links to them, and which of them are removed. Needs no torch.

    checkpoints/120        the state after 120 steps
    checkpoints/80.t1      after 80 steps in timeline 1, that is, after one rewind
    checkpoints/80.t1.2    the same step and timeline, saved a second time
    last, best_val         links to one of them; model links to best_val

Checkpoints are ordered by (timeline, step, copy). The names alone tell the order: times of files
change when a run directory is copied.
"""

from __future__ import annotations

import errno
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
from midstep.core.files.storage import make_subfolder, storage_error, sync_folder

STATE, TENSORS, MANIFEST = FILES = ("state.json", "tensors.safetensors", "manifest.json")
"""The files of a checkpoint, in the order in which they are written."""
LINKS = ("last", "best_val", "model")
log = logging.getLogger("midstep.session")
# Bounded numbers: a file name may have hundreds of digits.
_NAME = re.compile(r"(0|[1-9]\d{0,17})(?:\.t([1-9]\d{0,8}))?(?:\.([1-9]\d{0,8}))?")
_LINK_TEXT = re.compile(r"checkpoints/([^/]+)|(best_val)")


class CheckpointName(NamedTuple):
    """Timeline, step and copy of a checkpoint; the greatest is the newest."""

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
    def parse(cls, name: str) -> CheckpointName | None:
        """Parse the name of a folder; None for a name that no checkpoint has."""
        match = _NAME.fullmatch(name)
        if match is None:
            return None
        step, timeline, copy = (int(part or 0) for part in match.groups())
        parsed = cls(timeline, step, copy or 1)
        # The pattern also takes `80.1`, which is never written: copy 1 has no suffix.
        return parsed if parsed.name == name else None


def linked_name(link: Path) -> CheckpointName | None:
    """The checkpoint that a link of a run directory names; None if it names anything else.

    Links are read as text and never followed: in a run directory of somebody else, a link could
    lead to any file of this user.

    >>> import tempfile
    >>> run_dir = Path(tempfile.mkdtemp())
    >>> (run_dir / "last").symlink_to("checkpoints/120")
    >>> (run_dir / "best_val").symlink_to("../other/checkpoints/120")
    >>> linked_name(run_dir / "last"), linked_name(run_dir / "best_val")
    (CheckpointName(timeline=0, step=120, copy=1), None)
    """
    try:
        match = _LINK_TEXT.fullmatch(str(link.readlink()))
    except OSError:  # missing, or no link
        return None
    if match is None:
        return None
    if match[2] is None:
        return CheckpointName.parse(match[1])
    return None if link.name == match[2] else linked_name(link.with_name(match[2]))


class CheckpointFolders:
    """The checkpoints of one run directory, as folders. One process writes, any may read.

    Args:
        run_dir: the run directory.
        keep: how many to keep; those that a link points to are kept beyond that number.
    """

    def __init__(self, run_dir: str | os.PathLike[str], *, keep: int = 10) -> None:
        if keep < 1:
            raise ConfigError(f"keep must be at least 1, got {keep}; one is needed to resume")
        self.run_dir, self.keep = Path(run_dir), keep
        self.folder = self.run_dir / "checkpoints"

    def names(self) -> list[CheckpointName]:
        """Every checkpoint, newest first; none if there is a link in place of the folder."""
        if self.folder.is_symlink():
            return []
        try:
            entries = list(self.folder.iterdir())
        except FileNotFoundError:
            return []
        except OSError as error:
            raise storage_error(self.folder, "read", error) from error
        folders = [entry for entry in entries if entry.is_dir() and not entry.is_symlink()]
        names = (CheckpointName.parse(folder.name) for folder in folders)
        return sorted((name for name in names if name is not None), reverse=True)

    def path(self, name: CheckpointName) -> Path:
        """The folder of a checkpoint."""
        return self.folder / name.name

    def find(self, step: int, timeline: int | None = None) -> CheckpointName:
        """The newest checkpoint of a step, in one timeline or in any."""
        names = self.names()
        for name in names:
            if name.step == step and timeline in (None, name.timeline):
                return name
        present = ", ".join(name.name for name in names) or "none at all"
        raise ConfigError(f"there is no checkpoint of step {step} in {self.folder}: {present}")

    def add(
        self, step: int, timeline: int, files: Mapping[str, Chunks], *, best: bool = False
    ) -> Path:
        """Write a checkpoint, point the link `last` to it, and remove what is no longer kept.

        In this order, so that a kill at any point leaves a checkpoint that `last` points to.
        """
        self.make_folder()
        remove_temporary_folders(self.folder)
        remove_temporary_folders(self.run_dir)
        same = [name for name in self.names() if (name.timeline, name.step) == (timeline, step)]
        name = CheckpointName(timeline, step, same[0].copy + 1 if same else 1)
        path = add_folder(self.path(name), files)
        self.link("last", path)
        if best:
            self.mark_best(path)
        self._remove(same)
        self._remove(self.names()[self.keep :])
        return path

    def make_folder(self) -> None:
        """Create the folder of the checkpoints, in the run directory, if it is not there."""
        is_new = not self.folder.exists()
        # Not the run directory: if it was moved away, a new one must not appear at the old path;
        # the run parks with the error instead.
        make_subfolder(self.run_dir, self.folder.name)
        if is_new:
            sync_folder(self.run_dir)

    def link(self, name: str, path: Path) -> None:
        """Point the link `name` in the run directory to a checkpoint."""
        replace_link(self.run_dir / name, f"{self.folder.name}/{path.name}")

    def mark_best(self, path: Path) -> None:
        """Point `best_val`, and with it `model`, to this checkpoint."""
        self.link("best_val", path)
        if not (self.run_dir / "model").is_symlink():
            replace_link(self.run_dir / "model", "best_val")

    def linked(self) -> set[str]:
        """Names of the checkpoints that links point to."""
        linked = (linked_name(self.run_dir / name) for name in ("last", "best_val"))
        return {name.name for name in linked if name is not None}

    def _remove(self, names: list[CheckpointName]) -> None:
        """Remove checkpoints, but never one that a link points to or that has other files."""
        kept = self.linked()
        for name in names:
            if name.name in kept:
                continue
            try:
                remove_folder(self.path(name), FILES)
            except StorageError as error:
                # The new checkpoint is on disk; an old one that stays does no harm.
                log.warning("an old checkpoint was not removed: %s", error)

    def remove_leftovers(self) -> list[str]:
        """Remove what a killed writer left. Only the one writer of the run may call this.

        Raises:
            StorageError: the folder of the checkpoints is a link, so it is not of this run alone.
        """
        if self.folder.is_symlink():
            raise storage_error(self.folder, "use", OSError(errno.ELOOP, os.strerror(errno.ELOOP)))
        return remove_temporary_folders(self.folder) + remove_temporary_folders(self.run_dir)

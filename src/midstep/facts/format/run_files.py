"""Which files of a run directory midstep wrote, and of which kind they are.

A file is recognised by its path alone. Every other file in a run directory is foreign: the user or
another program wrote it. It is listed as such, and deleting the run does not touch it.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from midstep.core.files.storage import TEMPORARY_SUFFIX
from midstep.facts.format import console_parts, stop_files

FileKind = Literal["facts", "checkpoint", "figure", "artifact", "console", "config", "other"]
DEEPEST = 16
"""Levels of folders that are listed; ours have three."""
# The patterns are exact, down to the digits: a file that only looks like ours is not deleted.
_TEMPORARY = rf"\.[^/]+\.[0-9a-f]{{12}}{re.escape(TEMPORARY_SUFFIX)}"
_MEDIA = r"artifacts/media/[0-9a-f]{20}"
_CHECKPOINT = r"checkpoints/(?:0|[1-9]\d*)(?:\.t[1-9]\d*)?(?:\.[1-9]\d*)?"

_OWN: tuple[tuple[FileKind, str], ...] = (
    ("facts", r"facts/events(?:\.\d+-\d+)?\.jsonl"),
    ("facts", r"facts/steps\.\d+\.\d+\.bin"),
    ("facts", r"facts/(?:scalars\.csv|\.lock|deleting\.json)"),
    ("facts", r"facts/quarantine/[^/]+\.\d+-\d+"),
    ("facts", rf"(?:facts/(?:quarantine/)?)?{_TEMPORARY}"),
    ("facts", r"lineage\.json|lease\.json|labels\.json"),
    ("config", r"\.hydra/(?:config|overrides|hydra)\.yaml|launch\.json"),
    ("console", console_parts.NAMES),
    ("checkpoint", rf"{_CHECKPOINT}/(?:state\.json|tensors\.safetensors|manifest\.json)"),
    ("checkpoint", rf"checkpoints/{_TEMPORARY}(?:/[^/]+)?"),
    ("checkpoint", rf"checkpoints/blocks/(?:[0-9a-f]{{64}}|{_TEMPORARY})"),
    ("checkpoint", r"best_val|last|model"),
    ("figure", r"figures/[A-Za-z0-9_]+-on_[a-z_]+-e\d+\.(?:png|svg|pdf)"),
    ("artifact", r"artifacts/(?:trajectories|profile)\.json|artifacts/profile-trace\.json\.gz"),
    ("artifact", rf"{_MEDIA}/(?:index\.json|\d{{1,12}}\.(?:png|txt|json)|{_TEMPORARY})"),
    ("artifact", stop_files.NAMES),
    ("artifact", rf"artifacts/evidence/{_TEMPORARY}"),
    ("artifact", r"artifacts/(?:git-diff(?:\.\d+)?\.patch|packages(?:\.\d+)?\.txt)"),
)
_ORIGINAL_WEIGHTS = re.compile(r"(?:checkpoints/)?(?:model|best_val|last)\.pt")
"""Checkpoints of the original layout. Another program wrote them, so they are not deleted."""
_PATTERNS = tuple((kind, re.compile(pattern)) for kind, pattern in _OWN)
_KIND_OF_FOLDER: dict[str, FileKind] = {
    "facts": "facts",
    "checkpoints": "checkpoint",
    "figures": "figure",
    "artifacts": "artifact",
    ".hydra": "config",
}
OWN_FOLDERS = re.compile(
    rf"facts|facts/quarantine|\.hydra|checkpoints|{_CHECKPOINT}|checkpoints/{_TEMPORARY}"
    rf"|checkpoints/blocks|figures|artifacts|artifacts/evidence|artifacts/media|{_MEDIA}"
)


@dataclass(frozen=True, slots=True)
class RunFile:
    """One file or link of a run directory."""

    path: str
    """Relative to the run directory, with `/` between its parts."""
    bytes: int
    kind: FileKind
    is_ours: bool
    """Written by midstep, so it is deleted with the run."""
    modified_at: float
    is_plain: bool
    """A regular file: not a link, a pipe or a device."""

    @property
    def id(self) -> str:
        """Its name in a URL. The server compares it with listed files and makes no path of it."""
        data = self.path.encode("utf-8", "surrogateescape")
        return hashlib.blake2b(data, digest_size=10).hexdigest()


def classify(path: str) -> tuple[FileKind, bool]:
    """The kind of a file by its path, and whether midstep wrote it.

    >>> classify("checkpoints/120/state.json"), classify("figures/mine.png"), classify("notes.txt")
    (('checkpoint', True), ('figure', False), ('other', False))
    >>> classify("best_val.pt")
    ('checkpoint', False)
    """
    for kind, pattern in _PATTERNS:
        if pattern.fullmatch(path):
            return kind, True
    if _ORIGINAL_WEIGHTS.fullmatch(path):
        return "checkpoint", False
    return _KIND_OF_FOLDER.get(path.partition("/")[0], "other"), False


def list_files(run_dir: str | Path) -> Iterator[RunFile]:
    """Every file and link in a run directory, in sorted order. No link is followed."""
    for path, status in _walk(os.fspath(run_dir), "", 0):
        kind, is_ours = classify(path)
        is_plain = stat.S_ISREG(status.st_mode)
        # A link in place of one of our folders is deleted with the run; its target is not.
        is_ours = is_ours or (
            stat.S_ISLNK(status.st_mode) and OWN_FOLDERS.fullmatch(path) is not None
        )
        size = status.st_size if is_plain else 0
        yield RunFile(path, size, kind, is_ours, status.st_mtime, is_plain)


def disk_bytes(run_dir: str) -> int:
    """Bytes of all regular files in a run directory, without the work of naming their kinds."""
    statuses = (status for _, status in _walk(run_dir, "", 0))
    return sum(status.st_size for status in statuses if stat.S_ISREG(status.st_mode))


def _walk(folder: str, prefix: str, depth: int) -> Iterator[tuple[str, os.stat_result]]:
    """Path and status of everything below `folder` that is not a folder."""
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:  # removed in the meantime, or not ours to read
        return
    for entry in entries:
        path = prefix + entry.name
        try:
            status = entry.stat(follow_symlinks=False)
        except OSError:  # removed since it was listed
            continue
        if not stat.S_ISDIR(status.st_mode):
            yield path, status
        elif depth < DEEPEST:
            yield from _walk(entry.path, f"{path}/", depth + 1)

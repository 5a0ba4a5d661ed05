"""Which files of a run directory are the run's own: the known layout, and nothing else.

What midstep wrote can be told by its place and name. Anything else that lies in a run directory was
put there by somebody: it is shown as foreign, and no deletion touches it.
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

from midstep.core.storage import TEMPORARY_SUFFIX

__all__ = ["OWN_FOLDERS", "FileKind", "RunFile", "disk_bytes", "kind_of", "walk"]

FileKind = Literal["facts", "checkpoint", "figure", "artifact", "console", "config", "other"]
DEEPEST = 16
_TEMPORARY = rf"\.[^/]+\.[0-9a-f]{{12}}{re.escape(TEMPORARY_SUFFIX)}"
_CHECKPOINT = r"checkpoints/(?:0|[1-9]\d*)(?:\.t[1-9]\d*)?(?:\.[1-9]\d*)?"

_OWN: tuple[tuple[FileKind, str], ...] = (
    ("facts", r"facts/events(?:\.\d+-\d+)?\.jsonl"),
    ("facts", r"facts/steps\.\d+\.\d+\.bin"),
    ("facts", r"facts/(?:scalars\.csv|\.lock|deleting\.json)"),
    ("facts", r"facts/quarantine/[^/]+\.\d+-\d+"),
    ("facts", rf"(?:facts/(?:quarantine/)?)?{_TEMPORARY}"),
    ("facts", r"lineage\.json|lease\.json|labels\.json"),
    ("config", r"\.hydra/(?:config|overrides|hydra)\.yaml|launch\.json"),
    ("console", r"console\.log(?:\.\d+)?"),
    ("checkpoint", rf"{_CHECKPOINT}/(?:state\.json|tensors\.safetensors|manifest\.json)"),
    ("checkpoint", rf"checkpoints/{_TEMPORARY}(?:/[^/]+)?"),
    ("checkpoint", r"best_val|last|model"),
    ("figure", r"figures/[A-Za-z0-9_]+-on_[a-z_]+-e\d+\.(?:png|svg|pdf)"),
    ("artifact", r"artifacts/trajectories\.json"),
)
_PATTERNS = tuple((kind, re.compile(pattern)) for kind, pattern in _OWN)
_PLACES: dict[str, FileKind] = {
    "facts": "facts",
    "checkpoints": "checkpoint",
    "figures": "figure",
    "artifacts": "artifact",
    ".hydra": "config",
}
OWN_FOLDERS = re.compile(
    rf"facts|facts/quarantine|\.hydra|checkpoints|{_CHECKPOINT}|checkpoints/{_TEMPORARY}"
    r"|figures|artifacts"
)


@dataclass(frozen=True, slots=True)
class RunFile:
    """One file or link of a run directory."""

    path: str
    """Relative to the run directory, with `/` between its parts."""
    bytes: int
    kind: FileKind
    own: bool
    """Written by midstep: goes when the run is deleted."""
    modified_at: float
    is_plain: bool
    """Not a link, a pipe or a device."""

    @property
    def id(self) -> str:
        """What names it in an address; mapped back by listing only."""
        data = self.path.encode("utf-8", "surrogateescape")
        return hashlib.blake2b(data, digest_size=10).hexdigest()


def kind_of(path: str) -> tuple[FileKind, bool]:
    """What a file is by its place, and whether it is the run's own.

    >>> kind_of("checkpoints/120/state.json"), kind_of("figures/mine.png"), kind_of("notes.txt")
    (('checkpoint', True), ('figure', False), ('other', False))
    """
    for kind, pattern in _PATTERNS:
        if pattern.fullmatch(path):
            return kind, True
    return _PLACES.get(path.partition("/")[0], "other"), False


def walk(run_dir: str | Path) -> Iterator[RunFile]:
    """Every file and link below a run directory; no link is followed."""
    yield from _walk(os.fspath(run_dir), "", 0)


def _walk(folder: str, prefix: str, depth: int) -> Iterator[RunFile]:
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:  # gone in the meantime, or not ours to read
        return
    for entry in entries:
        path = prefix + entry.name
        try:
            found = entry.stat(follow_symlinks=False)
        except OSError:
            continue
        if stat.S_ISDIR(found.st_mode):
            if depth < DEEPEST:
                yield from _walk(entry.path, f"{path}/", depth + 1)
            continue
        kind, own = kind_of(path)
        is_plain = stat.S_ISREG(found.st_mode)
        # A link in the place of a folder of ours goes; what it leads to is somebody else's.
        own = own or (stat.S_ISLNK(found.st_mode) and OWN_FOLDERS.fullmatch(path) is not None)
        size = found.st_size if is_plain else 0
        yield RunFile(path, size, kind, own, found.st_mtime, is_plain)


def disk_bytes(run_dir: str) -> int:
    """Bytes of all plain files below a run directory."""
    total, folders = 0, [run_dir]
    while folders:
        try:
            with os.scandir(folders.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                    elif entry.is_file(follow_symlinks=False):
                        total += entry.stat(follow_symlinks=False).st_size
        except OSError:  # gone in the meantime, or not ours to read
            continue
    return total

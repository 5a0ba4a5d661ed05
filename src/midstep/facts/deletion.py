"""Deletes a run: what is its own by the known layout, and nothing else.

The run's lock is held the whole time, so that nobody can begin to write there. A mark is set first
and goes last: a deletion that was cut short leaves a run that is listed, says so, and can be
deleted again. Names are removed relative to opened folders, and no link is ever followed.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from midstep.core.errors import FormatError, RunHeldError, StorageError
from midstep.core.storage import replace_json, storage_error, sync_folder
from midstep.facts.digest import DELETING, EVENTS
from midstep.facts.ends import end_state
from midstep.facts.lock import RunLock
from midstep.facts.own_files import OWN_FOLDERS, RunFile, walk
from midstep.facts.recovery import last_run_id
from midstep.facts.run_row import LIVE

__all__ = ["Deleted", "Deletion", "delete_run", "plan_deletion"]

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NOT_THERE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})
_LAST = (f"facts/{EVENTS}", f"facts/{DELETING}", "facts/.lock")
"""In this order, behind all others: as long as one is there, the run is listed."""


@dataclass(frozen=True, kw_only=True)
class Deletion:
    """What a deletion would do."""

    own: list[RunFile]
    """What goes."""
    foreign: list[str]
    """What stays."""

    @property
    def bytes(self) -> int:
        """How much space would be free."""
        return sum(file.bytes for file in self.own)


@dataclass(frozen=True, kw_only=True)
class Deleted:
    """What a deletion did."""

    removed_bytes: int
    removed_files: int
    kept: list[str]
    """Paths in the run directory that were not the run's own; they are still there."""


def plan_deletion(run_dir: str | Path) -> Deletion:
    """What deleting this run would remove and what it would leave; nothing is changed.

    >>> import tempfile
    >>> from midstep.facts import FactsWriter
    >>> with FactsWriter(folder := tempfile.mkdtemp()) as facts:
    ...     facts.log(1, loss=0.5)
    >>> _ = (Path(folder) / "notes.txt").write_text("mine")
    >>> plan_deletion(folder).foreign
    ['notes.txt']
    """
    files = list(walk(run_dir))
    return Deletion(
        own=[file for file in files if file.own],
        foreign=[file.path for file in files if not file.own],
    )


def delete_run(run_dir: str | Path) -> Deleted:
    """Remove everything that is the run's own; the directory too, if nothing else is in it.

    Raises:
        RunHeldError: if the run is live, or its process still holds it.
        StorageError: if the disk refused; what is left is listed, and can be deleted again.
    """
    folder = Path(run_dir)
    with _held(folder):
        if not (folder / "facts").is_symlink():
            mark = {"run_id": _known_id(folder), "at": time.time()}
            replace_json(folder / "facts" / DELETING, mark)
        try:
            found = _remove_own(folder)
        except OSError as error:
            raise storage_error(folder, "delete", error) from error
    with suppress(OSError):  # something of somebody else's is in it: it stays
        folder.rmdir()
        sync_folder(folder.parent)
    return found


@contextmanager
def _held(folder: Path) -> Iterator[None]:
    """Hold the run's lock; refuse a run that lives, here or by its heartbeat elsewhere."""
    if (folder / "facts").is_symlink():
        yield  # nobody can have a lock in a folder that is not here
        return
    state = end_state(folder)
    if state.state in LIVE:
        reason = "" if state.reason is None else f" ({state.reason})"
        raise RunHeldError(f"the run in {folder.name} is {state.state}{reason}; stop it first")
    lock = RunLock.acquire_alone(folder)
    try:
        yield
    finally:
        lock.release()


def _known_id(folder: Path) -> str | None:
    """The run's id, so that it keeps it while it is being deleted; damage is no hindrance."""
    try:
        return last_run_id(folder)
    except (FormatError, StorageError, ValueError, KeyError):
        return None


def _remove_own(folder: Path) -> Deleted:
    own = sorted((file for file in walk(folder) if file.own), key=_order)
    root = os.open(folder, _FOLDER)
    try:
        removed = [file for file in own if _unlink(root, file.path)]
        _remove_folders(root, folder)
    finally:
        os.close(root)
    return Deleted(
        removed_bytes=sum(file.bytes for file in removed),
        removed_files=len(removed),
        kept=[*(file.path for file in walk(folder)), *_empty_folders(folder)],
    )


def _empty_folders(folder: Path) -> list[str]:
    """Folders that somebody else made and that hold nothing."""
    return [
        f"{Path(at).relative_to(folder).as_posix()}/"
        for at, folders, files in os.walk(folder)
        if not (folders or files) and at != str(folder)
    ]


def _order(file: RunFile) -> int:
    return _LAST.index(file.path) if file.path in _LAST else -1


def _unlink(root: int, path: str) -> bool:
    """Remove one name; False when it is gone already."""
    parts = path.split("/")
    with _opened(root, parts[:-1]) as parent:
        if parent is None:
            return False
        try:
            os.unlink(parts[-1], dir_fd=parent)
        except FileNotFoundError:
            return False
    return True


@contextmanager
def _opened(root: int, parts: list[str]) -> Iterator[int | None]:
    """A folder below `root`, opened name by name; None when one of them is gone, or now a link."""
    opened: list[int] = []
    at = root
    try:
        for part in parts:
            at = os.open(part, _FOLDER, dir_fd=at)
            opened.append(at)
    except OSError as error:
        if error.errno not in _NOT_THERE:
            raise
        at = -1
    try:
        yield None if at < 0 else at
    finally:
        for descriptor in opened:
            os.close(descriptor)


def _remove_folders(root: int, folder: Path) -> None:
    """Our folders that are empty now, the deepest first."""
    found = [Path(at).relative_to(folder).as_posix() for at, _, _ in os.walk(folder, topdown=False)]
    for path in found:
        if OWN_FOLDERS.fullmatch(path) is None:
            continue
        *parents, name = path.split("/")
        with _opened(root, parents) as parent, suppress(OSError):  # not empty: it stays
            if parent is not None:
                os.rmdir(name, dir_fd=parent)

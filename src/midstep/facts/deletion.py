"""Deletes the files that midstep wrote into a run directory, and nothing else.

The lock of the run is held all the time, so that no process can begin to write there. A mark
(`deleting.json`) is written first and removed last: an interrupted deletion leaves a run that is
listed as damaged and can be deleted again. Names are removed relative to opened folders, so no link
is ever followed.
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
from midstep.core.files.storage import replace_json, storage_errors, sync_folder
from midstep.core.files.untrusted_files import is_plain, open_folder, open_subfolder
from midstep.facts.format.paths import lock_path
from midstep.facts.format.run_files import OWN_FOLDERS, RunFile, list_files
from midstep.facts.index.run_row import LIVE_STATES
from midstep.facts.index.run_summary import DELETING, EVENTS
from midstep.facts.liveness.run_liveness import end_state
from midstep.facts.liveness.run_lock import RunLock
from midstep.facts.write.recovery import last_run_id

_NOT_THERE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})
_LAST = (f"facts/{EVENTS}", f"facts/{DELETING}", "facts/.lock")
"""Deleted after all others, in this order. As long as one exists, the run is listed."""


@dataclass(frozen=True, kw_only=True)
class DeletionPlan:
    """What a deletion would do."""

    own: list[RunFile]
    """Files that are deleted."""
    foreign: list[str]
    """Paths of files that stay."""

    @property
    def bytes(self) -> int:
        """How much space the deletion frees."""
        return sum(file.bytes for file in self.own)


@dataclass(frozen=True, kw_only=True)
class DeletionResult:
    """What a deletion did."""

    removed_bytes: int
    removed_files: int
    kept: list[str]
    """Paths in the run directory that midstep did not write; they still exist."""


def plan_deletion(run_dir: str | Path) -> DeletionPlan:
    """What `delete_run` would delete and what it would leave. Nothing is changed.

    >>> import tempfile
    >>> from midstep.facts import FactsWriter
    >>> with FactsWriter(folder := tempfile.mkdtemp()) as facts:
    ...     facts.log(1, loss=0.5)
    >>> _ = (Path(folder) / "notes.txt").write_text("mine")
    >>> plan_deletion(folder).foreign
    ['notes.txt']
    """
    files = list(list_files(run_dir))
    return DeletionPlan(
        own=[file for file in files if file.is_ours],
        foreign=[file.path for file in files if not file.is_ours],
    )


def delete_run(run_dir: str | Path) -> DeletionResult:
    """Delete every file that midstep wrote, and the directory if nothing else is in it.

    Raises:
        RunHeldError: if the run is live, or its process still holds the lock.
        StorageError: if the disk refuses. The rest is still listed, and can be deleted again.
    """
    folder = Path(run_dir)
    with _hold_lock(folder):
        if not (folder / "facts").is_symlink():
            mark = {"run_id": _known_id(folder), "at": time.time()}
            replace_json(folder / "facts" / DELETING, mark, mode=0o600)
        with storage_errors(folder, "delete"):
            result = _remove_own(folder)
    with suppress(OSError):  # it is not empty, so it stays
        folder.rmdir()
        sync_folder(folder.parent)
    return result


@contextmanager
def _hold_lock(folder: Path) -> Iterator[None]:
    """Hold the lock of the run; refuse a run that is live here, or elsewhere by its heartbeat.

    A lock that is a link, or has a second name, is not ours and is not opened: taking it would
    empty the file that it leads to.
    """
    if (folder / "facts").is_symlink():
        yield  # the lock file would be created in a folder that is not part of the run
        return
    state = end_state(folder)
    if state.state in LIVE_STATES:
        reason = "" if state.reason is None else f" ({state.reason})"
        raise RunHeldError(f"the run in {folder.name} is {state.state}{reason}; stop it first")
    lock_file = lock_path(folder)
    if os.path.lexists(lock_file) and not is_plain(lock_file):
        yield
        return
    lock = RunLock.acquire(folder, is_shared=False)
    try:
        yield
    finally:
        lock.release()


def _known_id(folder: Path) -> str | None:
    """The id under which an interrupted deletion is listed; None if the facts are damaged."""
    try:
        return last_run_id(folder)
    except (FormatError, StorageError, ValueError, KeyError):
        return None


def _remove_own(folder: Path) -> DeletionResult:
    ours = sorted(plan_deletion(folder).own, key=_order)
    with open_folder(folder) as root:
        removed = [file for file in ours if _unlink(root, file.path)]
        _remove_folders(root, folder)
    return DeletionResult(
        removed_bytes=sum(file.bytes for file in removed),
        removed_files=len(removed),
        kept=[*(file.path for file in list_files(folder)), *_empty_folders(folder)],
    )


def _empty_folders(folder: Path) -> list[str]:
    """Empty folders that midstep did not create."""
    return [
        f"{Path(at).relative_to(folder).as_posix()}/"
        for at, folders, files in os.walk(folder)
        if not (folders or files) and at != str(folder)
    ]


def _order(file: RunFile) -> int:
    """Sort key: files of `_LAST` after all others."""
    return _LAST.index(file.path) if file.path in _LAST else -1


def _unlink(root: int, path: str) -> bool:
    """Remove one file below the opened folder `root`; False if it does not exist any more."""
    *parents, name = path.split("/")
    with _ignore_missing(), open_subfolder(root, parents) as parent:
        os.unlink(name, dir_fd=parent)
        return True
    return False


def _remove_folders(root: int, folder: Path) -> None:
    """Remove the folders that are ours and empty now, the deepest first."""
    paths = [Path(at).relative_to(folder).as_posix() for at, _, _ in os.walk(folder, topdown=False)]
    for path in paths:
        if OWN_FOLDERS.fullmatch(path) is None:
            continue
        *parents, name = path.split("/")
        with (
            _ignore_missing(),
            open_subfolder(root, parents) as parent,
            suppress(OSError),  # it is not empty, so it stays
        ):
            os.rmdir(name, dir_fd=parent)


@contextmanager
def _ignore_missing() -> Iterator[None]:
    """Continue if a file, or a folder on the way to it, was removed or replaced by a link."""
    try:
        yield
    except OSError as error:
        if error.errno not in _NOT_THERE:
            raise

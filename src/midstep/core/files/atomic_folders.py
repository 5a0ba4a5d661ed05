"""Folders that appear and disappear atomically, and links that are replaced atomically.

A new folder is filled under a temporary name, every file is synced, and then it is renamed: it
exists with all its files, or not at all. To remove a folder, it is renamed first and then emptied.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from midstep.core.errors import StorageError
from midstep.core.files.storage import (
    TEMPORARY_SUFFIX,
    storage_errors,
    sync_folder,
    temporary_name,
    temporary_path,
    write_new_file,
)

Chunks = Iterable[bytes | bytearray | memoryview]
"""The content of a file in pieces, so that it is never in memory as a whole."""


def add_folder(path: str | os.PathLike[str], files: Mapping[str, Chunks]) -> Path:
    """Create the folder `path` with `files` in it, atomically and synced to the disk.

    The files are written in their order, so a later one may contain hashes of the earlier ones.
    On any error nothing is left, and what was there before is unchanged.
    """
    with new_folder(path) as temporary:
        for name, chunks in files.items():
            write_new_file(temporary / name, chunks)
    return Path(path)


@contextmanager
def new_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A folder to fill with files, which gets the name `path` if the block ends without an error.

    The caller syncs each file it writes there. On any error nothing is left.
    """
    target = Path(path)
    temporary = temporary_path(target)
    with storage_errors(target, "write"):
        try:
            temporary.mkdir()
            yield temporary
            sync_folder(temporary)
            check_free(target)
            temporary.rename(target)
        except BaseException:
            _empty(temporary)
            raise
    sync_folder(target.parent)


def check_free(target: Path) -> None:
    """Raise if the name exists: a rename would silently replace an empty folder or a link."""
    if os.path.lexists(target):
        raise StorageError(
            f"cannot write {target}: there is something of that name already; "
            "choose another name, or remove it first"
        )


def remove_folder(path: str | os.PathLike[str], names: Iterable[str]) -> bool:
    """Remove the folder `path` if it holds exactly the files `names`; else change nothing.

    Returns whether it was removed.
    """
    folder = Path(path)
    with storage_errors(folder, "remove"):
        if {entry.name for entry in folder.iterdir()} != set(names):
            return False
        # Renamed first: a kill in the middle leaves no folder with some of its files missing.
        aside = temporary_path(folder)
        folder.rename(aside)
        _empty(aside)
    return True


def remove_temporary_folders(folder: str | os.PathLike[str]) -> list[str]:
    """Remove temporary folders and links that a kill left in `folder`.

    Only its one writer may call this.
    """
    removed = []
    for entry in Path(folder).glob(f".*{TEMPORARY_SUFFIX}"):
        if entry.is_symlink():
            with suppress(OSError):  # one that cannot be removed does no harm
                entry.unlink()
        elif entry.is_dir():
            _empty(entry)
        if not os.path.lexists(entry):
            removed.append(entry.name)
    return sorted(removed)


def _empty(temporary: Path) -> None:
    """Remove a temporary folder, which holds files only; one that stays does no harm."""
    with suppress(OSError):
        for entry in list(temporary.iterdir()):
            entry.unlink()
        temporary.rmdir()


def replace_link(path: str | os.PathLike[str], to: str) -> None:
    """Make `path` a link to `to`, atomically and synced to the disk.

    Only a link is ever replaced.
    """
    link = Path(path)
    if os.path.lexists(link) and not link.is_symlink():
        raise StorageError(
            f"cannot make the link {link}: something else has that name; move it away"
        )
    with storage_errors(link, "make the link"), temporary_name(link) as temporary:
        temporary.symlink_to(to)
        temporary.replace(link)
    sync_folder(link.parent)

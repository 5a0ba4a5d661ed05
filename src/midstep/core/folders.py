"""Whole folders that appear at once, and links that are replaced at once.

A folder is filled under a temporary name beside its place, every file synced, and renamed: it is
there with all its files, or not at all. It goes the other way round: renamed first, then emptied.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from midstep.core.errors import StorageError
from midstep.core.storage import TEMPORARY_SUFFIX, storage_error, sync_folder

__all__ = [
    "Chunks",
    "add_folder",
    "new_folder",
    "remove_folder",
    "remove_temporary_folders",
    "replace_link",
]

Chunks = Iterable[bytes | bytearray | memoryview]
"""The content of a file, piece by piece, so that it never lies in memory as a whole."""


def add_folder(path: str | os.PathLike[str], files: Mapping[str, Chunks]) -> Path:
    """Make the folder `path` with `files` in it, all at once and durable.

    The files are written in their order, so the chunks of a later one may tell of the earlier.
    On any error nothing is left, and what was there before is untouched.
    """
    with new_folder(path) as temporary:
        for name, chunks in files.items():
            _write_durable(temporary / name, chunks)
    return Path(path)


@contextmanager
def new_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A folder to fill with plain files, which has the name `path` when the block ends well.

    Whoever writes a file there syncs it. On any error nothing is left.
    """
    target = Path(path)
    temporary = _temporary(target)
    try:
        try:
            temporary.mkdir()
            yield temporary
            sync_folder(temporary)
            _check_free(target)
            temporary.rename(target)
        except BaseException:
            _empty(temporary)
            raise
    except StorageError:
        raise
    except OSError as error:
        raise storage_error(target, "write", error) from error
    sync_folder(target.parent)


def _check_free(target: Path) -> None:
    """A rename would silently take the place of an empty folder or of a link."""
    if os.path.lexists(target):
        raise StorageError(f"cannot write {target}: there is something of that name already")


def _write_durable(path: Path, chunks: Chunks) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        for chunk in chunks:
            view = memoryview(chunk).cast("B")
            while view:
                view = view[os.write(descriptor, view) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_folder(path: str | os.PathLike[str], names: Iterable[str]) -> bool:
    """Remove the folder `path` if it holds exactly the files `names`; False: left as it is."""
    folder = Path(path)
    try:
        if {entry.name for entry in folder.iterdir()} != set(names):
            return False
        aside = _temporary(folder)
        folder.rename(aside)
        _empty(aside)
    except OSError as error:
        raise storage_error(folder, "remove", error) from error
    return True


def remove_temporary_folders(folder: str | os.PathLike[str]) -> list[str]:
    """Remove what a kill left of `add_folder`, `remove_folder` and `replace_link` in `folder`.

    Only for its one writer to call.
    """
    removed = []
    for entry in Path(folder).glob(f".*{TEMPORARY_SUFFIX}"):
        if entry.is_symlink():
            with suppress(OSError):  # a leftover that cannot be removed does no harm
                entry.unlink()
        elif entry.is_dir():
            _empty(entry)
        if not os.path.lexists(entry):
            removed.append(entry.name)
    return sorted(removed)


def _empty(temporary: Path) -> None:
    """Remove a temporary folder; it holds plain files only, and what cannot go does no harm."""
    with suppress(OSError):
        for entry in list(temporary.iterdir()):
            entry.unlink()
        temporary.rmdir()


def replace_link(path: str | os.PathLike[str], to: str) -> None:
    """Let the link `path` lead to `to`, at once and durable; only a link is ever replaced."""
    link = Path(path)
    if os.path.lexists(link) and not link.is_symlink():
        raise StorageError(
            f"cannot make the link {link}: something else has that name; move it away"
        )
    temporary = _temporary(link)
    try:
        try:
            temporary.symlink_to(to)
            temporary.replace(link)
        except BaseException:
            with suppress(OSError):  # it may never have been made
                temporary.unlink()
            raise
    except OSError as error:
        raise storage_error(link, "make the link", error) from error
    sync_folder(link.parent)


def _temporary(path: Path) -> Path:
    return path.with_name(f".{path.name}.{secrets.token_hex(6)}{TEMPORARY_SUFFIX}")

"""Writes files: replaces a file as a whole, or appends one record at a time.

*Replace* writes a temporary file in the same folder and renames it, so a reader sees the old file
or the new one, never a mix. *Append* is one `write` on an open descriptor. A partial write is cut
off again, so a file ends in a whole record, or in one that a kill cut short.
"""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from midstep.core import strict_json
from midstep.core.errors import StorageError
from midstep.core.files.untrusted_files import open_for_writing

TEMPORARY_SUFFIX = ".midstep-tmp"

_REMEDIES = {
    errno.ENOSPC: "free some space on that disk",
    errno.EDQUOT: "free some of your quota on that disk",
    errno.EROFS: "the disk is mounted read-only; choose another folder",
    errno.EACCES: "choose a folder you may write, or change its permissions",
    errno.EPERM: "choose a folder you may write, or change its permissions",
    errno.ENOENT: "the folder is gone; put it back or choose another",
    errno.ENOTDIR: "a file has the name of a needed folder; choose another name",
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
    errno.ENFILE: "the machine is out of file descriptors; close some programs",
    errno.EIO: "the disk reports an error; check it before trusting it further",
    errno.EFBIG: "the file system or ulimit -f does not allow a larger file",
    errno.ELOOP: "it is a link, and links in a run directory are not followed; remove it",
    errno.EMLINK: "copy it, and put the copy in its place",
}


def storage_error(path: str | os.PathLike[str], doing: str, cause: OSError) -> StorageError:
    """An error that names the file, the reason and what to do, with the errno of `cause`.

    >>> str(storage_error("a.json", "write", OSError(errno.ENOSPC, "No space left on device")))
    'cannot write a.json: No space left on device; free some space on that disk'
    """
    reason = cause.strerror or str(cause)
    remedy = _REMEDIES.get(cause.errno or 0, "check the disk and the path, then try again")
    error = StorageError(f"cannot {doing} {os.fspath(path)}: {reason}; {remedy}")
    error.errno = cause.errno
    return error


@contextmanager
def storage_errors(path: str | os.PathLike[str], doing: str) -> Iterator[None]:
    """Raise an `OSError` of the block as a `storage_error`."""
    try:
        yield
    except StorageError:  # it names its file already
        raise
    except OSError as error:
        raise storage_error(path, doing, error) from error


def make_folder(path: str | os.PathLike[str], *, mode: int = 0o777) -> Path:
    """Create a folder with its parents; it may exist already.

    Args:
        path: the folder.
        mode: permissions of a new folder, before the umask; its parents follow the umask alone.
    """
    folder = Path(path)
    with storage_errors(folder, "create the folder"):
        folder.mkdir(mode, parents=True, exist_ok=True)
    return folder


def make_subfolder(parent: str | os.PathLike[str], *names: str, mode: int = 0o700) -> Path:
    """Create a folder below `parent`, with those between them; each may exist, none be a link.

    A link in a run directory could lead anywhere, and what is written there would replace files of
    this user. `parent` itself must exist: a run directory that was moved away is not created again.

    Raises:
        StorageError: one of them is a link or a file, or cannot be created.
    """
    folder = Path(parent)
    for name in names:
        folder = folder / name
        with storage_errors(folder, "create the folder"):
            try:
                folder.mkdir(mode)
            except FileExistsError:
                if folder.is_symlink():
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP)) from None
                if not folder.is_dir():
                    raise OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)) from None
    return folder


def sync_folder(folder: str | os.PathLike[str]) -> None:
    """Sync the names in `folder` to the disk."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno == errno.EINVAL:  # some network file systems have no fsync of folders
            return
        raise storage_error(folder, "sync the folder", error) from error


def sync_file(path: str | os.PathLike[str]) -> None:
    """Make the content of a file durable that a library has written; before it is renamed."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace_bytes(
    path: str | os.PathLike[str], data: bytes, *, durable: bool = True, mode: int = 0o666
) -> None:
    """Replace `path` by `data` atomically; on any error the old file stays as it was.

    Args:
        path: the file to replace or create; its folder must exist.
        data: the whole new content.
        durable: fsync file and folder before returning.
        mode: permissions of the new file, before the umask.
    """
    target = Path(path)
    with storage_errors(target, "write"), temporary_name(target) as temporary:
        write_new_file(temporary, (data,), durable=durable, mode=mode)
        temporary.replace(target)
    if durable:
        sync_folder(target.parent)


def write_new_file(
    path: Path,
    chunks: Iterable[bytes | bytearray | memoryview],
    *,
    durable: bool = True,
    mode: int = 0o666,
) -> None:
    """Write a file that must not exist yet; by default it is synced to the disk."""
    # O_EXCL refuses a link too: nobody can redirect the write to another file.
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        for chunk in chunks:
            view = memoryview(chunk).cast("B")
            while view:  # one write takes at most 2 GiB, and less on a nearly full disk
                view = view[os.write(descriptor, view) :]
        if durable:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace_json(
    path: str | os.PathLike[str], value: Any, *, durable: bool = True, mode: int = 0o666
) -> None:
    """Replace `path` by `value` as strict JSON and a newline."""
    replace_bytes(path, (strict_json.dumps(value) + "\n").encode(), durable=durable, mode=mode)


@contextmanager
def replacement(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A file to write piece by piece, which replaces `path` if the block ends without an error.

    Links are followed. A device or a pipe is written directly.
    """
    target = Path(path).resolve()
    if target.exists() and not target.is_file():
        with storage_errors(path, "write"), target.open("wb") as file:
            yield file
        return
    with storage_errors(path, "write"), temporary_name(target) as temporary:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())  # before the rename: a name must not lead to an empty file
        temporary.replace(target)
        sync_folder(target.parent)


@contextmanager
def temporary_name(target: Path) -> Iterator[Path]:
    """A name next to `target` for a file or link, which is removed if the block raises.

    It is in the same folder, since a rename is atomic only within one file system.
    """
    temporary = temporary_path(target)
    try:
        yield temporary
    except BaseException:  # also Ctrl+C: nothing may be left
        with suppress(OSError):  # it may not exist; the first error is the one to report
            temporary.unlink()
        raise


def temporary_path(target: Path) -> Path:
    """A new hidden name next to `target`, which `remove_temporaries` recognises."""
    return target.with_name(f".{target.name}.{secrets.token_hex(6)}{TEMPORARY_SUFFIX}")


def remove_temporaries(folder: str | os.PathLike[str]) -> list[str]:
    """Remove temporary files that a kill left in `folder`; returns their names.

    Only the one writer of the folder may call this: the files may be in use by another process.
    """
    removed = []
    for entry in Path(folder).glob(f".*{TEMPORARY_SUFFIX}"):
        with suppress(OSError):  # a leftover that cannot be removed does no harm
            entry.unlink()
            removed.append(entry.name)
    return sorted(removed)


class AppendFile:
    """A file that grows by whole records, on one open descriptor.

    One thread may append at a time (the caller holds a lock); `sync` may run at the same time.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._has_partial_record = False
        with storage_errors(self.path, "open"):
            existed = self.path.exists()
            # Only for this user: events hold the command line of the run.
            self._descriptor = open_for_writing(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
            status = os.fstat(self._descriptor)
        self._identity = (status.st_dev, status.st_ino)
        self.size = self._synced = status.st_size
        """Bytes in whole records."""
        if not existed:  # a new name survives a power cut only if its folder is synced
            sync_folder(self.path.parent)

    @property
    def unsynced(self) -> bool:
        """Whether something was appended since the last good `sync`."""
        return self._synced != self.size

    def append(self, data: bytes) -> int:
        """Write one record in one call and return its offset. On an error nothing is written."""
        if self._has_partial_record:
            self.truncate(self.size)
        try:  # no `storage_errors` here: this is the hot path of `log`
            written = os.write(self._descriptor, data)
        except OSError as error:
            raise storage_error(self.path, "append to", error) from error
        if written != len(data):  # the kernel cuts a write short when the disk is full
            self.take_back(self.size)
            cause = OSError(errno.ENOSPC, f"only {written} of {len(data)} bytes could be written")
            raise storage_error(self.path, "append to", cause)
        offset = self.size
        self.size = offset + written
        return offset

    def take_back(self, size: int) -> None:
        """Undo an append that failed or was interrupted: the file ends at `size` again."""
        self.size, self._has_partial_record = size, True
        with suppress(StorageError):  # `append` tries again
            self.truncate(size)

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes."""
        with storage_errors(self.path, "cut"):
            os.ftruncate(self._descriptor, size)
        self._has_partial_record = False
        self.size = size
        self._synced = min(self._synced, size)

    def sync(self) -> None:
        """Sync everything that was appended so far to the disk."""
        size = self.size
        try:
            os.fsync(self._descriptor)
        except OSError as error:
            # Counted as synced, so that no caller tries again: the kernel may have dropped the
            # pages, and a second fsync would report success.
            self._synced = size
            raise storage_error(self.path, "sync", error) from error
        self._synced = size

    def in_place(self) -> bool:
        """Whether the path still leads to this file: it was not moved, deleted or replaced."""
        try:
            status = self.path.stat()
        except OSError:
            return False
        return (status.st_dev, status.st_ino) == self._identity

    def abandon(self) -> None:
        """Close the descriptor and change nothing: for a forked child, whose parent writes."""
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            with suppress(OSError):  # nothing was written through it
                os.close(descriptor)

    def close(self) -> None:
        """Close the descriptor; a second call does nothing."""
        if self._descriptor < 0:
            return
        if self._has_partial_record:
            self.take_back(self.size)
        descriptor, self._descriptor = self._descriptor, -1
        with storage_errors(self.path, "close"):
            os.close(descriptor)

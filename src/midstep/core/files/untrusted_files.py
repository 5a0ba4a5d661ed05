"""Opens files in a folder that other users may change: regular files only, no link followed.

A link in the folder could lead to any file of this user, opening a pipe would block, and a sparse
file of some terabytes costs its author nothing. Every file below a run directory is opened here.
"""

from __future__ import annotations

import errno
import os
import stat
import struct
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO

from midstep.core.errors import MidstepError

FILE_ERRORS = (
    MidstepError,
    OSError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    ArithmeticError,
    RecursionError,
    struct.error,
)
"""Everything that reading a damaged or foreign file may raise."""
LARGEST_BYTES = 1 << 20
"""Small files (lease, labels, notes) are refused above this size."""
PIECE_BYTES = 4 << 20
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Without O_NONBLOCK, opening a pipe waits until another process writes to it.
_SAFE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@contextmanager
def open_folder(folder: str | Path) -> Iterator[int]:
    """The descriptor of a folder; an error if `folder` itself is a link."""
    descriptor = os.open(folder, _FOLDER)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def open_subfolder(root: int, parts: Sequence[str]) -> Iterator[int]:
    """The descriptor of a folder below the opened folder `root`.

    Every part of the path is opened relative to the one before. A path as a whole could be
    redirected by a link that another process puts there between the check and the use.

    Raises:
        OSError: if one of them is missing, a link, or not a folder.
    """
    descriptors: list[int] = []
    last = root
    try:
        for part in parts:
            last = os.open(part, _FOLDER, dir_fd=last)
            descriptors.append(last)
        yield last
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


@contextmanager
def open_plain(folder: Path, *parts: str) -> Iterator[BinaryIO]:
    """A regular file inside `folder`, opened without following a link.

    Raises:
        OSError: if it does not exist, or is not a regular file.
    """
    with (
        open_folder(folder) as root,
        open_subfolder(root, parts[:-1]) as parent,
        _open_regular(parts[-1], parent) as file,
    ):
        yield file


@contextmanager
def open_file(path: Path, *, below: int = 0) -> Iterator[BufferedReader]:
    """A regular file, opened without following a link.

    Args:
        path: the file. Links in the path of its folder are followed.
        below: how many of the last folders of the path must not be links: 1 for `.hydra` in a run.

    Raises:
        OSError: if it does not exist, or is not a regular file.
    """
    root, parts = path.parents[below], path.parts[-1 - below :]
    with ExitStack() as stack:
        folder = None
        if below:
            # The folder from which on no link is followed may be reached through one.
            top = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            stack.callback(os.close, top)
            folder = stack.enter_context(open_subfolder(top, parts[:-1]))
        yield stack.enter_context(_open_regular(parts[-1] if below else path, folder))


def read_plain(path: Path, most_bytes: int = LARGEST_BYTES, *, below: int = 0) -> bytes:
    """The bytes of a small regular file, opened as by `open_file`.

    Raises:
        OSError: if it does not exist, is not a regular file, or has more than `most_bytes`.
    """
    with open_file(path, below=below) as file:
        # By its size first, so that no memory is taken for a giant; a file may also grow meanwhile.
        is_small = os.fstat(file.fileno()).st_size <= most_bytes
        data = file.read(most_bytes + 1) if is_small else b""
    if not is_small or len(data) > most_bytes:
        raise OSError(errno.EFBIG, f"it has more than {most_bytes:,} bytes", str(path))
    return data


def open_regular(
    path: str | Path, flags: int = os.O_RDONLY, mode: int = 0o600, *, folder: int | None = None
) -> int:
    """A descriptor of a regular file; the caller closes it.

    Args:
        path: the file. Links in the path of its folder are followed.
        flags: as `os.open` takes them; links are never followed, and a pipe never blocks.
        mode: permissions of a file that is created.
        folder: descriptor of the folder that `path` is relative to.

    Raises:
        OSError: if it does not exist, or is not a regular file.
    """
    descriptor = os.open(path, flags | _SAFE, mode, dir_fd=folder)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(errno.ENOENT, "it is a folder, a pipe or a device, not a file", str(path))


def open_for_writing(
    path: str | Path, flags: int, mode: int = 0o600, *, folder: int | None = None
) -> int:
    """`open_regular` for a file that is changed: one with a second name is refused.

    A hard link leads to a file of another folder, which would be appended to or cut.
    """
    descriptor = open_regular(path, flags, mode, folder=folder)
    refuse_second_name(descriptor)
    return descriptor


def refuse_second_name(descriptor: int) -> None:
    """Close the descriptor of a file that has a second name, and raise an error.

    Raises:
        OSError: with `EMLINK`.
    """
    if os.fstat(descriptor).st_nlink > 1:
        os.close(descriptor)
        raise OSError(errno.EMLINK, "it has another name, too (it is a hard link)")


def open_in_folder(path: Path, flags: int = os.O_RDONLY, mode: int = 0o600) -> int:
    """`open_regular` for a file whose folder must not be a link either, such as `facts`."""
    with open_folder(path.parent) as folder:
        return open_regular(path.name, flags, mode, folder=folder)


def file_problem(path: Path) -> str | None:
    """Why a path does not lead to a regular file, for a message; None if it does."""
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return f"{path.name} is missing"
    if stat.S_ISLNK(mode):
        return f"{path.name} is a link, and links are not followed; put the file itself there"
    if not stat.S_ISREG(mode):
        return f"{path.name} is a folder, a pipe or a device, not a file"
    return None


def is_plain(path: str | Path) -> bool:
    """Whether a path leads to a regular file that has no second name; a link is not followed."""
    try:
        status = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISREG(status.st_mode) and status.st_nlink == 1


def data_pieces(descriptor: int, start: int, stop: int) -> Iterator[tuple[int, bytes]]:
    """(offset, bytes) of a file from `start` up to `stop`, in pieces; holes are left out.

    A hole of a sparse file reads as zeros. Reading it would take as long as if it had been written.
    """
    at = start
    while at < stop:
        try:
            at = os.lseek(descriptor, at, os.SEEK_DATA)
            end = os.lseek(descriptor, at, os.SEEK_HOLE)
        except OSError as error:
            if error.errno == errno.ENXIO:  # only a hole follows
                return
            end = stop  # the file system knows no holes
        data = os.pread(descriptor, min(PIECE_BYTES, end - at, stop - at), at)
        if not data:  # cut in the meantime
            return
        yield at, data
        at += len(data)


@contextmanager
def _open_regular(path: str | Path, folder: int | None = None) -> Iterator[BufferedReader]:
    descriptor = open_regular(path, folder=folder)
    try:
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            yield file
    finally:
        os.close(descriptor)

"""Opens files in a folder that other users may change: regular files only, no link followed.

A link in the folder could lead to any file of this user, and opening a pipe would block.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

LARGEST_BYTES = 1 << 20
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Without O_NONBLOCK, opening a pipe waits until another process writes to it.
_PLAIN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


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


def read_plain(path: Path) -> bytes:
    """The bytes of a regular file, at most 1 MiB. Links in its folder's path are followed.

    Raises:
        OSError: if it does not exist, or is not a regular file.
    """
    with _open_regular(path) as file:
        return file.read(LARGEST_BYTES)


@contextmanager
def _open_regular(path: str | Path, folder: int | None = None) -> Iterator[BinaryIO]:
    descriptor = os.open(path, _PLAIN, dir_fd=folder)
    try:
        # Checked before `fdopen`, which refuses a folder without closing its descriptor.
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise FileNotFoundError(str(path))
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            yield file
    finally:
        os.close(descriptor)

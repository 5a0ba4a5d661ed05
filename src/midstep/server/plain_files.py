"""Plain files in a folder that this server listed itself; nothing is followed out of it."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

__all__ = ["open_plain"]

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Nothing is followed out of the folder, and a pipe put in a file's place does not hold us up.
_PLAIN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@contextmanager
def open_plain(folder: Path, *parts: str) -> Iterator[BinaryIO]:
    """A plain file inside `folder`, by names of our own; no link is followed on the way.

    Raises:
        OSError: where there is none, or something else has its name.
    """
    descriptors = [os.open(folder, _FOLDER)]
    try:
        for part in parts[:-1]:
            descriptors.append(os.open(part, _FOLDER, dir_fd=descriptors[-1]))
        found = os.open(parts[-1], _PLAIN, dir_fd=descriptors[-1])
        with os.fdopen(found, "rb") as file:
            if not stat.S_ISREG(os.fstat(found).st_mode):
                raise FileNotFoundError(parts[-1])
            yield file
    finally:
        for descriptor in descriptors:
            os.close(descriptor)

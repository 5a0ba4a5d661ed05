"""Small files that lie in a run directory themselves: a link in their place is not followed."""

from __future__ import annotations

import os
import stat
from pathlib import Path

__all__ = ["read_plain"]

LARGEST_BYTES = 1 << 20
# A pipe put in a file's place does not hold us up.
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def read_plain(path: Path) -> bytes:
    """The bytes of a plain file, at most 1 MiB.

    Raises:
        OSError: where there is none, or something else has its name.
    """
    descriptor = os.open(path, _FLAGS)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise FileNotFoundError(str(path))
        return os.read(descriptor, LARGEST_BYTES)
    finally:
        os.close(descriptor)

"""Save arrays, and compare files with their recorded hashes."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from midstep.core.files import storage
from midstep.core.files.untrusted_files import open_file


def save_array(path: Path, array: NDArray[Any]) -> None:
    """Write a .npy file that appears complete or not at all."""
    with storage.replacement(path) as file:
        np.save(file, array, allow_pickle=False)


def hash_file(path: Path) -> str:
    """The SHA-256 of a file's bytes, in hexadecimal."""
    with open_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def hash_problem(path: Path, expected: str, recorded_in: str) -> str | None:
    """What to report if a file's SHA-256 is not the recorded one; None if it is.

    Args:
        path: the file.
        expected: the recorded SHA-256.
        recorded_in: where it is recorded, for the message.
    """
    digest = hash_file(path)
    if digest == expected:
        return None
    return (
        f"{path.name} has changed since it was written: its SHA-256 is {digest[:16]}…, "
        f"{recorded_in} says {expected[:16]}…"
    )

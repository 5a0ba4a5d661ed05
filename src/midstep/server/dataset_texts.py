"""The texts behind the rows of a dataset: `texts/NAME.jsonl`, one JSON string a line.

`texts/NAME.offsets.npy` says where each line begins, so that one text is two small reads.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterable
from typing import BinaryIO, Literal

from midstep.server.data_roots import StoredDataset
from midstep.server.plain_files import open_plain

__all__ = ["Kind", "has_texts", "texts_of"]

Kind = Literal["questions", "sources", "keywords"]
LONGEST_BYTES = 64 * 1024
"""Of a line that is read; what is longer is left out."""


def has_texts(stored: StoredDataset, kind: Kind) -> bool:
    """Whether the builder kept the texts of these rows."""
    try:
        with open_plain(stored.folder, "texts", f"{kind}.offsets.npy"):
            return True
    except OSError:
        return False


def texts_of(stored: StoredDataset, kind: Kind, rows: Iterable[int]) -> dict[int, str | None]:
    """The text of each row; None where there is none, or it cannot be read."""
    wanted = sorted({int(row) for row in rows})
    try:
        with (
            open_plain(stored.folder, "texts", f"{kind}.offsets.npy") as offsets,
            open_plain(stored.folder, "texts", f"{kind}.jsonl") as lines,
        ):
            start, count = _data_of(offsets)
            return {row: _text(offsets, lines, start, count, row) for row in wanted}
    except (OSError, ValueError):  # ids are shown in their place
        return dict.fromkeys(wanted)


def _data_of(file: BinaryIO) -> tuple[int, int]:
    """Where the numbers of a one-dimensional int64 `.npy` file begin, and how many there are."""
    import numpy as np

    version = np.lib.format.read_magic(file)
    if version != (1, 0):
        raise ValueError("another version of .npy than the builder writes")
    shape, _, kind = np.lib.format.read_array_header_1_0(file)
    if len(shape) != 1 or kind != np.dtype("<i8"):
        raise ValueError("no list of offsets")
    return file.tell(), shape[0]


def _text(offsets: BinaryIO, lines: BinaryIO, start: int, count: int, row: int) -> str | None:
    if not 0 <= row < count - 1:
        return None
    ends = os.pread(offsets.fileno(), 16, start + 8 * row)
    if len(ends) != 16:
        return None
    first, last = struct.unpack("<qq", ends)
    if not 0 <= first < last <= first + LONGEST_BYTES:
        return None
    try:
        found = json.loads(os.pread(lines.fileno(), last - first, first))
    except (ValueError, RecursionError):
        return None
    return found.encode("utf-8", "replace").decode() if isinstance(found, str) else None

"""Hops through a steps file from head to head, for the first and last rows of each layout.

Lists show no more than that. Only what is shown is checked by its CRC; where anything is not as it
should be, the caller walks the file frame by frame instead.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from midstep.core.storage import storage_error
from midstep.facts.columns import RowGroup, count_rows, row_dtype
from midstep.facts.frames import FILE_HEADER_BYTES, LAYOUT, SEAL, layout_names, parse_file_header
from midstep.facts.scan import frame_head, is_whole_frame

__all__ = ["Skim", "skim_steps"]

LARGEST_PIECE_BYTES = 64 << 20


class Skim(NamedTuple):
    """The first and last rows of each stretch of one layout, in file order by layout."""

    groups: list[RowGroup]
    offset: int
    """Behind the last whole frame."""
    layouts: dict[int, tuple[str, ...]]


def skim_steps(path: Path, offset: int, layouts: Mapping[int, tuple[str, ...]]) -> Skim | None:
    """What is new behind `offset`; None when it has to be looked at frame by frame.

    Raises:
        FormatError: for a file of an unknown version.
    """
    try:
        with path.open("rb", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            if size - offset > LARGEST_PIECE_BYTES:
                return None
            data = os.pread(file.fileno(), size - offset, offset)
    except FileNotFoundError:
        return Skim([], offset, dict(layouts))
    except OSError as error:
        raise storage_error(path, "read", error) from error
    start = 0
    if offset == 0:
        if len(data) < FILE_HEADER_BYTES:
            return Skim([], 0, {})
        if parse_file_header(data, str(path)) is None:
            return None
        start = FILE_HEADER_BYTES
    return _hop(data, start, offset, dict(layouts))


def _hop(data: bytes, start: int, offset: int, layouts: dict[int, tuple[str, ...]]) -> Skim | None:
    """From head to head; rows of one layout are counted in one go."""
    ends: dict[int, tuple[int, int, int]] = {}
    at = start
    while at < len(data):
        size, what = frame_head(data, at)
        if size == 0 or at + size > len(data):  # damaged, or the torn end: told apart with care
            return None
        if what == SEAL:
            at += size
        elif what == LAYOUT:
            if not is_whole_frame(data, at, size):
                return None
            identity, names = layout_names(data, at)
            layouts[identity] = names
            at += size
        else:
            names_known = layouts.get(what)
            if names_known is None or row_dtype(len(names_known)).itemsize != size:
                return None
            frames = count_rows(data, at, size, what)
            first = ends[what][0] if what in ends else at
            ends[what] = (first, at + size * (frames - 1), size)
            at += size * frames
    groups = []
    for what, (first, last, size) in ends.items():
        if not (is_whole_frame(data, first, size) and is_whole_frame(data, last, size)):
            return None
        rows = np.frombuffer(data[first : first + size] + data[last : last + size], np.uint8)
        groups.append(RowGroup(layouts[what], rows.view(row_dtype(len(layouts[what])))))
    return Skim(groups, offset + at, layouts)

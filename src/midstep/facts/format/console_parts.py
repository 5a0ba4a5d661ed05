"""The files that hold what a run printed.

`console.log` is the first part. Later parts are
called `console.log.OFFSET-LINE`: the first byte and the first line that each holds, counted over
all that was printed. So a reader knows where each part belongs although others were removed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from midstep.core.files.untrusted_files import open_folder, open_plain, open_regular

FIRST = "console.log"
START = "start.log"
"""What a process that was launched for a run writes until the run is open; it is removed then."""
NAMES = r"start\.log|console\.log(?:\.\d+|\.[1-9]\d{0,17}-[1-9]\d{0,17})?"
"""All names of such files, also those of earlier versions."""
MOST_PARTS = 256
"""Parts that are read; a run keeps about a dozen."""
MOST_COUNTED = 16 << 20
"""Lines are counted over at most so many bytes of a part."""
PIECE_BYTES = 1 << 20
_LATER = re.compile(r"console\.log\.([1-9]\d{0,17})-([1-9]\d{0,17})")


@dataclass(frozen=True, kw_only=True, order=True)
class ConsolePart:
    """One file of what was printed."""

    offset: int
    """Its first byte, counted over all that was printed."""
    line: int
    """Its first line, from 1."""
    name: str
    size: int

    @property
    def stop(self) -> int:
        """The byte after its last one."""
        return self.offset + self.size


def name_of(offset: int, line: int) -> str:
    """The name of the part that begins at a byte and a line.

    >>> name_of(0, 1), name_of(262144, 3121)
    ('console.log', 'console.log.262144-3121')
    """
    return f"{FIRST}.{offset}-{line}" if offset else FIRST


def position_of(name: str) -> tuple[int, int] | None:
    """The first byte and the first line of a part by its name; None for other files.

    >>> position_of("console.log.262144-3121"), position_of("console.log"), position_of("a.log")
    ((262144, 3121), (0, 1), None)
    """
    if name == FIRST:
        return 0, 1
    match = _LATER.fullmatch(name)
    return None if match is None else (int(match[1]), int(match[2]))


def list_parts(run_dir: Path) -> list[ConsolePart]:
    """The files of what was printed, in order. Links, and what overlaps, are left out."""
    try:
        with open_folder(run_dir) as folder:
            names = [name for name in os.listdir(folder) if name.startswith(FIRST)]  # noqa: PTH208 - of an opened folder
            parts = [_part(folder, name) for name in names]
    except OSError:
        return []
    known = sorted(part for part in parts if part is not None)
    apart = [
        part
        for part, before in zip(known, [None, *known], strict=False)
        if before is None or before.stop <= part.offset
    ]
    return apart[-MOST_PARTS:]


def _part(folder: int, name: str) -> ConsolePart | None:
    position = position_of(name)
    if position is None:
        return None
    try:
        descriptor = open_regular(name, folder=folder)
    except OSError:  # a link, or removed since it was listed
        return None
    try:
        size = os.fstat(descriptor).st_size
    finally:
        os.close(descriptor)
    return ConsolePart(offset=position[0], line=position[1], name=name, size=size)


def count_lines(run_dir: Path, part: ConsolePart, stop: int) -> int | None:
    """Line ends in a part before the byte `stop`; None if they are too many bytes to count."""
    left = stop - part.offset
    if left > MOST_COUNTED:
        return None
    with open_plain(run_dir, part.name) as file:
        return sum(piece.count(b"\n") for piece in _pieces(file, left))


def _pieces(file: BinaryIO, left: int) -> Iterator[bytes]:
    while left > 0 and (piece := file.read(min(PIECE_BYTES, left))):
        left -= len(piece)
        yield piece

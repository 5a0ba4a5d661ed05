"""Turns the rows of a steps file into numpy columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from midstep.facts.frames import LAYOUT, ROW_HEAD_BYTES, layout_names
from midstep.facts.scan import Damage, Piece, Span, StepsScanner

__all__ = ["LONG_RUN", "RowGroup", "Rows", "StepsFile", "count_rows", "row_dtype"]

Rows = npt.NDArray[np.void]
LONG_RUN = 64
"""Rows in a run, on average, from which a view of each run is cheaper than one gathered copy."""


def row_dtype(names: int) -> np.dtype[np.void]:
    """The bytes of a row frame with so many values."""
    return np.dtype(
        [
            ("crc", "<u4"),
            ("size", "<u4"),
            ("what", "<u4"),
            ("timeline", "<u4"),
            ("seq", "<u8"),
            ("step", "<i8"),
            ("wall", "<f8"),
            ("mono", "<f8"),
            ("values", "<f8", (names,)),
        ]
    )


@dataclass(frozen=True, slots=True)
class RowGroup:
    """Rows of one layout: a structured array with the fields of `row_dtype`."""

    names: tuple[str, ...]
    rows: Rows


class StepsFile:
    """Reads one steps file as it grows.

    Args:
        path: the file.
        offset: where a frame starts that is to be the first.
        layouts: names by layout, of those defined before `offset`.
        held: keep the file open until `close`.
    """

    def __init__(
        self,
        path: Path,
        *,
        offset: int = 0,
        layouts: Mapping[int, Sequence[str]] | None = None,
        held: bool = False,
    ) -> None:
        self.path = path
        self._scanner = StepsScanner(path, count_rows=count_rows, held=held)
        self._scanner.offset = offset
        self._layouts = {
            identity: (tuple(names), row_dtype(len(names)))
            for identity, names in (layouts or {}).items()
        }
        self.nameless = 0
        """Rows whose layout was lost to damage."""
        self.unread_bytes = 0
        """About how much is still to come from a `groups` in progress."""

    @property
    def offset(self) -> int:
        """File offset behind the last row that was read."""
        return self._scanner.offset

    @property
    def layouts(self) -> dict[int, tuple[str, ...]]:
        """Names by layout, of those met so far."""
        return {identity: names for identity, (names, _) in self._layouts.items()}

    @property
    def damages(self) -> list[Damage]:
        """Bytes that make no whole record."""
        return self._scanner.damages

    def close(self) -> None:
        """Let the file go, where it is held open."""
        self._scanner.close()

    def groups(self) -> Iterator[RowGroup]:
        """New rows; short runs of one layout within a piece of the file come together."""
        for piece in self._scanner.read():
            by_layout: dict[int, list[Span]] = {}
            for span in self._row_spans(piece):
                by_layout.setdefault(span[2], []).append(span)
            for what, spans in by_layout.items():
                names, dtype = self._layouts[what]
                if sum(span[3] for span in spans) >= LONG_RUN * len(spans):
                    for span in spans:
                        in_piece = len(piece.buffer) - span[0]
                        self.unread_bytes = self._scanner.unread_bytes + in_piece
                        yield RowGroup(names, _view(piece.buffer, span, dtype))
                else:
                    yield RowGroup(names, _gather(piece.buffer, spans, dtype))

    def runs(self) -> Iterator[RowGroup]:
        """New rows in file order: a group ends where the layout changes."""
        for piece in self._scanner.read():
            for span in self._row_spans(piece):
                names, dtype = self._layouts[span[2]]
                yield RowGroup(names, _view(piece.buffer, span, dtype))

    def _row_spans(self, piece: Piece) -> Iterator[Span]:
        """Spans of rows whose names are known; layouts are learnt on the way."""
        for span in piece.spans:
            offset, size, what, frames = span
            if what == LAYOUT:
                for at in range(offset, offset + size * frames, size):
                    identity, names = layout_names(piece.buffer, at)
                    self._layouts[identity] = (names, row_dtype(len(names)))
            elif what < LAYOUT:
                known = self._layouts.get(what)
                if known is None or known[1].itemsize != size:
                    self.nameless += frames
                else:
                    yield span


def _view(buffer: bytes, span: Span, dtype: np.dtype[np.void]) -> Rows:
    return np.frombuffer(buffer, dtype, count=span[3], offset=span[0])


def _gather(buffer: bytes, spans: list[Span], dtype: np.dtype[np.void]) -> Rows:
    """The rows of many short spans as one array."""
    words = np.frombuffer(buffer, "<u8", count=len(buffer) // 8)
    offset, size, _, frames = np.array(spans, dtype=np.int64).T
    starts = np.repeat(offset, frames)
    if len(starts) > len(spans):  # place of each row within its span, times the size of a row
        first = np.repeat(np.cumsum(frames) - frames, frames)
        starts += (np.arange(len(starts)) - first) * size[0]
    found = words[(starts // 8)[:, None] + np.arange(dtype.itemsize // 8)]
    return found.view(dtype)[:, 0]


def count_rows(buffer: bytes, offset: int, size: int, what: int) -> int:
    """How many frames of that size and layout follow each other, in growing strides."""
    expected = size | (what << 32)
    limit = (len(buffer) - offset) // size
    counted, window = 1, 16
    following = offset + size + 4
    if limit > 1 and int.from_bytes(buffer[following : following + 8], "little") != expected:
        return 1  # layouts that alternate need no numpy
    while counted < limit:
        heads: npt.NDArray[Any] = np.ndarray(
            (min(window, limit - counted),),
            "<u8",
            buffer,
            offset + counted * size + 4,
            (size,),
        )
        same = heads == expected
        if not same.all():
            return counted + int(same.argmin())
        counted += len(heads)
        window *= 8
    return counted


assert row_dtype(0).itemsize == ROW_HEAD_BYTES  # noqa: S101 - two descriptions of the same bytes

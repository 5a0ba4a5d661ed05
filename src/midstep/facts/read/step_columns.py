"""Rows of a steps file as structured numpy arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from midstep.core.errors import FormatError
from midstep.facts.format.scanners import SMALLEST_FRAME_BYTES, CheckedChunk, Span, StepsScanner
from midstep.facts.format.step_frames import (
    LAYOUT,
    MAXIMUM_FRAME_BYTES,
    ROW_HEAD_BYTES,
    layout_names,
)

Rows = npt.NDArray[np.void]
LONG_RUN = 64
"""Rows in a span, on average, from which a view of each span is cheaper than one gathered copy."""


def row_dtype(names: int) -> np.dtype[np.void]:
    """The dtype of a row frame with so many values."""
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
    bytes_after: int = 0
    """About how many bytes follow in the file, to make room for them at once; 0 if not known."""


def count_rows(buffer: bytes, offset: int, size: int, what: int) -> int:
    """How many frames of that size and layout follow each other; compared in growing windows."""
    expected = size | (what << 32)  # both fields of a head as one little-endian number
    limit = (len(buffer) - offset) // size
    counted, window = 1, 16
    following = offset + size + 4
    if limit > 1 and int.from_bytes(buffer[following : following + 8], "little") != expected:
        return 1  # layouts that alternate are common, and need no numpy
    while counted < limit:
        heads: npt.NDArray[Any] = np.ndarray(
            (min(window, limit - counted),),
            "<u8",
            buffer,
            offset + counted * size + 4,
            (size,),
        )
        # A view of the heads alone, with the size of a row as its stride: nothing is copied.
        same = heads == expected
        if not same.all():
            return counted + int(same.argmin())
        counted += len(heads)
        window *= 8
    return counted


def plausible_heads(buffer: bytes, start: int) -> Iterator[int]:
    """Offsets from `start` on where a frame may start, in steps of eight bytes."""
    window = 512
    while len(buffer) - start >= SMALLEST_FRAME_BYTES:
        count = min(window, (len(buffer) - start) // 8 - 1)
        words = np.frombuffer(buffer, "<u4", count=2 * count + 1, offset=start)
        size, what = words[1::2], words[2::2]
        is_head = (what != 0) & (size % 8 == 0) & (size >= SMALLEST_FRAME_BYTES)
        is_head &= size <= MAXIMUM_FRAME_BYTES
        yield from (start + 8 * np.flatnonzero(is_head)).tolist()
        start += 8 * count
        window = min(8 * window, 1 << 20)  # the next frame is usually near


class StepsReader(StepsScanner):
    """Reads the rows of one steps file as it grows.

    Args:
        path: the file.
        offset: where to start; a frame must begin there.
        layouts: names by layout id, of the layouts defined before `offset`.
        held: keep the file open until `close`.
    """

    _count_rows = staticmethod(count_rows)
    _plausible_heads = staticmethod(plausible_heads)

    def __init__(
        self,
        path: Path,
        *,
        offset: int = 0,
        layouts: Mapping[int, Sequence[str]] | None = None,
        held: bool = False,
    ) -> None:
        super().__init__(path, offset=offset, held=held)
        self._layouts = {
            identity: (tuple(names), row_dtype(len(names)))
            for identity, names in (layouts or {}).items()
        }
        self.rows_without_layout = 0
        """Rows that cannot be read, because the frame of their layout is damaged."""

    @property
    def layouts(self) -> dict[int, tuple[str, ...]]:
        """Names by layout id, of the layouts so far."""
        return {identity: names for identity, (names, _) in self._layouts.items()}

    def groups(self) -> Iterator[RowGroup]:
        """New rows in any order: many short spans of one layout in a chunk become one group."""
        for chunk in self.read():
            by_layout: dict[int, list[Span]] = {}
            for span in self._row_spans(chunk):
                by_layout.setdefault(span[2], []).append(span)
            for what, spans in by_layout.items():
                names, dtype = self._layouts[what]
                if sum(span[3] for span in spans) >= LONG_RUN * len(spans):
                    for span in spans:
                        offset, size, _, frames = span
                        in_chunk = len(chunk.buffer) - offset - size * frames
                        bytes_after = self.unread_bytes + in_chunk
                        yield RowGroup(names, _view(chunk.buffer, span, dtype), bytes_after)
                else:
                    yield RowGroup(names, _gather(chunk.buffer, spans, dtype))

    def runs(self) -> Iterator[RowGroup]:
        """New rows in file order: a group ends where the layout changes."""
        for chunk in self.read():
            for span in self._row_spans(chunk):
                names, dtype = self._layouts[span[2]]
                yield RowGroup(names, _view(chunk.buffer, span, dtype))

    def _row_spans(self, chunk: CheckedChunk) -> Iterator[Span]:
        """Spans of rows whose layout is known; layouts are remembered on the way."""
        for span in chunk.spans:
            offset, size, what, frames = span
            if what == LAYOUT:
                for at in range(offset, offset + size * frames, size):
                    with suppress(FormatError):  # its rows are then counted as unreadable
                        identity, names = layout_names(chunk.buffer, at)
                        self._layouts[identity] = (names, row_dtype(len(names)))
            elif what < LAYOUT:
                known = self._layouts.get(what)
                if known is None or known[1].itemsize != size:
                    self.rows_without_layout += frames
                else:
                    yield span


def _view(buffer: bytes, span: Span, dtype: np.dtype[np.void]) -> Rows:
    return np.frombuffer(buffer, dtype, count=span[3], offset=span[0])


def _gather(buffer: bytes, spans: list[Span], dtype: np.dtype[np.void]) -> Rows:
    """The rows of many short spans as one array."""
    # Frames are multiples of eight bytes, so rows are gathered as 64-bit words.
    words = np.frombuffer(buffer, "<u8", count=len(buffer) // 8)
    offset, size, _, frames = np.array(spans, dtype=np.int64).T
    starts = np.repeat(offset, frames)
    if len(starts) > len(spans):  # index of each row in its span, times the size of a row
        first = np.repeat(np.cumsum(frames) - frames, frames)
        starts += (np.arange(len(starts)) - first) * size[0]
    rows = words[(starts // 8)[:, None] + np.arange(dtype.itemsize // 8)]
    return rows.view(dtype)[:, 0]


assert row_dtype(0).itemsize == ROW_HEAD_BYTES  # noqa: S101 - two descriptions of the same bytes

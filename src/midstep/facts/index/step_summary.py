"""`StepSummary`: what a list of runs shows of one steps file.

Only the first and the last row of each layout are checked and read; the frames between them are
skipped from head to head.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from midstep.facts.format.scanners import frame_head, is_whole_frame, read_new_bytes
from midstep.facts.format.step_frames import (
    CHECKSUM_NAMES,
    FILE_HEADER_BYTES,
    LAYOUT,
    SEAL,
    layout_names,
    parse_file_header,
)
from midstep.facts.read.step_columns import RowGroup, StepsReader, count_rows, row_dtype

MOST_NAMES = 2_000
"""Series that a list shows of a run; further ones are in its facts, but not listed."""


@dataclass
class StepSummary:
    """The summary of one steps file. Plain values only, since it is stored as JSON."""

    offset: int = 0
    """File offset after the last row that was read."""
    layouts: dict[str, list[str]] = field(default_factory=dict)
    """Names of the values by layout id."""
    damages: int = 0
    rows: int = 0
    first: tuple[int, float] | None = None
    """(step, wall) of the first row."""
    last: tuple[int, int, float, int] | None = None
    """(seq, step, wall, timeline) of the last row."""
    values: dict[str, tuple[int, float]] = field(default_factory=dict)
    """(seq, value) of the last row of each name, in the order the names appeared."""

    def read(self, path: Path) -> None:
        """Read what is new in the file."""
        known = {int(identity): tuple(names) for identity, names in self.layouts.items()}
        layouts = dict(known)
        ends = _read_layout_ends(path, self.offset, layouts)
        if ends is None:
            self._read_carefully(path, known)
            return
        groups, self.offset = ends
        for group in groups:
            self._add(group)
        self._set_layouts(layouts)

    def _read_carefully(self, path: Path, known: Mapping[int, tuple[str, ...]]) -> None:
        """Check every frame, and continue after damaged ones."""
        file = StepsReader(path, offset=self.offset, layouts=known)
        for group in file.groups():
            self._add(group)
        self.offset = file.offset
        self.damages += len(file.damages) + file.rows_without_layout
        self._set_layouts(file.layouts)

    def _set_layouts(self, layouts: Mapping[int, tuple[str, ...]]) -> None:
        self.layouts = {str(identity): list(names) for identity, names in layouts.items()}

    def _add(self, group: RowGroup) -> None:
        self.rows += len(group.rows)
        first, last = group.rows[0], group.rows[-1]
        if self.first is None:
            self.first = (int(first["step"]), float(first["wall"]))
        seq = int(last["seq"])
        if self.last is None or seq > self.last[0]:
            self.last = (seq, int(last["step"]), float(last["wall"]), int(last["timeline"]))
        for name, value in zip(group.names, last["values"].tolist(), strict=True):
            if name in CHECKSUM_NAMES:
                continue
            known = self.values.get(name)
            if known is None and len(self.values) >= MOST_NAMES:
                continue
            if known is None or known[0] < seq:
                self.values[name] = (seq, value)

    @classmethod
    def of_json(cls, values: dict[str, Any]) -> StepSummary:
        """A summary from its fields as JSON, which has lists in place of tuples."""
        summary = cls(**values)
        summary.first = None if summary.first is None else (summary.first[0], summary.first[1])
        summary.last = None if summary.last is None else (*summary.last[:3], summary.last[3])
        return summary


def _read_layout_ends(
    path: Path, offset: int, layouts: dict[int, tuple[str, ...]]
) -> tuple[list[RowGroup], int] | None:
    """The first and last row of each layout after `offset`, and the offset after the last frame.

    New layouts are added to `layouts`. None if the file must be checked frame by frame.

    Raises:
        FormatError: for a file of an unknown version.
    """
    data = read_new_bytes(path, offset)
    if data is None:
        return None
    start = 0
    if offset == 0:
        if len(data) < FILE_HEADER_BYTES:
            return [], 0
        if parse_file_header(data, str(path)) is None:
            return None
        start = FILE_HEADER_BYTES
    return _scan_heads(data, start, offset, layouts)


def _scan_heads(
    data: bytes, start: int, offset: int, layouts: dict[int, tuple[str, ...]]
) -> tuple[list[RowGroup], int] | None:
    """Skip from head to head; frames of one layout that follow each other are counted at once."""
    ends: dict[int, tuple[int, int, int]] = {}
    at = start
    while at < len(data):
        size, what = frame_head(data, at)
        # Damaged, or the last frame is still being written: only a full check can tell which.
        if size == 0 or at + size > len(data):
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
    return groups, offset + at

"""All scalars of a run as one wide table, one row a step and one column a name: CSV, Parquet.

The table is made and written in chunks of steps, so a long run needs no more memory than its
series.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np
import numpy.typing as npt

from midstep.core.errors import ConfigError, MissingExtraError
from midstep.facts.read.reader import FactsReader
from midstep.facts.read.series import ALL_POINTS, Series, SeriesStore
from midstep.facts.write.scalars_csv import csv_cell

CELLS_AT_ONCE = 1_000_000
"""Cells of one chunk, about 8 MB of float64."""


@dataclass(frozen=True, slots=True)
class TableChunk:
    """Some rows of the table."""

    step: npt.NDArray[np.int64]
    """Steps, rising."""
    values: list[npt.NDArray[np.float64]]
    """One column for each name."""
    known: list[npt.NDArray[np.bool_]]
    """For each column, where it has a value; NaN is a value too."""


class WideTable:
    """The scalars of a run directory.

    Args:
        run_dir: the run directory.
        names: which series, in this order; by default all.
        timeline: the run as it was in that timeline; the present one by default.

    >>> import tempfile
    >>> from midstep.facts import FactsWriter
    >>> with FactsWriter(folder := tempfile.mkdtemp()) as facts:
    ...     facts.log(1, loss=0.5)
    >>> WideTable(folder).columns
    ['step', 'loss']
    """

    def __init__(
        self,
        run_dir: str | Path,
        names: Sequence[str] | None = None,
        *,
        timeline: int | None = None,
    ) -> None:
        self._path = None if timeline is None else FactsReader(run_dir).path_of(timeline)
        self._store = SeriesStore(run_dir)
        self._store.refresh()
        self.names = list(self._store.names if names is None else dict.fromkeys(names))
        self._counts = [self._series(name, points=1).count for name in self.names]

    def _series(self, name: str, **settings: Any) -> Series:
        return self._store.series(name, path=self._path, **settings)

    @property
    def columns(self) -> list[str]:
        """Names of the columns; a series called `step` gets a trailing `_`."""
        return ["step", *(f"{name}_" if name == "step" else name for name in self.names)]

    def chunks(self, cells: int = CELLS_AT_ONCE) -> Iterator[TableChunk]:
        """The whole table in order of steps, about `cells` cells at a time."""
        if not self.names:
            return
        for start, stop in self._windows(max(1, cells // (len(self.names) + 1))):
            series = [
                self._series(n, start=start, stop=stop, points=ALL_POINTS) for n in self.names
            ]
            step = np.unique(np.concatenate([each.step for each in series]))
            chunk = TableChunk(step, [], [])
            for each in series:
                value, known = np.zeros(len(step)), np.zeros(len(step), np.bool_)
                # Every position is exact: `step` holds all steps of each series.
                at = np.searchsorted(step, each.step)
                value[at], known[at] = each.low, True
                chunk.values.append(value)
                chunk.known.append(known)
            yield chunk

    def _windows(self, rows: int) -> Iterator[tuple[int | None, int | None]]:
        """Ranges of steps in which the longest series has about `rows` points."""
        most = max(self._counts)
        longest = self.names[self._counts.index(most)]
        firsts = self._series(longest, points=max(1, most // rows)).step.tolist()
        yield from pairwise([None, *firsts[1:], None])


class TextWriter(Protocol):
    """What `write_csv` needs of a file."""

    def write(self, text: str, /) -> Any:
        """Write a text."""


def write_csv(table: WideTable, file: TextWriter) -> None:
    """Write CSV. A step without a value has an empty cell; names like formulas are quoted."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow([csv_cell(name) for name in table.columns])
    for chunk in table.chunks():
        columns = [
            _cells(value, known) for value, known in zip(chunk.values, chunk.known, strict=True)
        ]
        writer.writerows(zip(chunk.step.tolist(), *columns, strict=True))


def _cells(value: npt.NDArray[np.float64], known: npt.NDArray[np.bool_]) -> list[Any]:
    """Floats, which `csv` writes as the shortest text that reads back the same; NaN by name."""
    cells: list[Any] = value.tolist()
    for at in np.flatnonzero(~(known & np.isfinite(value))).tolist():
        cells[at] = _NAMES[str(cells[at])] if known[at] else ""
    return cells


_NAMES = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def write_parquet(table: WideTable, file: BinaryIO) -> None:
    """Write Parquet: `step` as int64, the others as float64, null if a step has no value."""
    try:
        import pyarrow as arrow
        from pyarrow import parquet
    except ImportError:
        raise MissingExtraError.for_library("pyarrow", "parquet") from None
    if len(set(table.columns)) < len(table.columns):
        raise ConfigError("two columns would have the same name; leave one of them out of names")
    fields = [(name, arrow.float64()) for name in table.columns[1:]]
    schema = arrow.schema([("step", arrow.int64()), *fields])
    with parquet.ParquetWriter(file, schema) as writer:
        for chunk in table.chunks():
            columns = [arrow.array(chunk.step)]
            for value, known in zip(chunk.values, chunk.known, strict=True):
                columns.append(arrow.array(value, mask=~known))
            writer.write_table(arrow.table(columns, schema=schema))

"""Every scalar of a run as one wide table: a row a step, a column a name.

The table is made and written a stretch of steps at a time, so a long run needs no more memory than
its series.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO, TextIO

import numpy as np
import numpy.typing as npt

from midstep.core.errors import ConfigError, MissingExtraError
from midstep.facts.reader import FactsReader
from midstep.facts.scalars_csv import csv_cell
from midstep.facts.series import Series, SeriesStore

__all__ = ["Stretch", "WideTable", "write_csv", "write_parquet"]

CELLS_AT_ONCE = 1_000_000
_ALL = 2**62


@dataclass(frozen=True, slots=True)
class Stretch:
    """Some rows of the table."""

    step: npt.NDArray[np.int64]
    """Rising."""
    values: list[npt.NDArray[np.float64]]
    """A column for each name."""
    known: list[npt.NDArray[np.bool_]]
    """Where a column has a value; NaN is a value."""


class WideTable:
    """The scalars of a run directory; per step the row of the highest timeline counts.

    Args:
        run_dir: the run directory.
        names: which series, in this order; all when left out.
        timeline: the run as it was in that timeline; left out, per step the highest one counts.

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

    def _series(self, name: str, **asked: Any) -> Series:
        return self._store.series(name, path=self._path, **asked)

    @property
    def columns(self) -> list[str]:
        """Names of the columns; a series called `step` has a `_` behind it."""
        return ["step", *(f"{name}_" if name == "step" else name for name in self.names)]

    def stretches(self, cells: int = CELLS_AT_ONCE) -> Iterator[Stretch]:
        """The whole table in order of steps, about so many cells at a time."""
        if not self.names:
            return
        for start, stop in self._windows(max(1, cells // (len(self.names) + 1))):
            found = [self._series(n, start=start, stop=stop, points=_ALL) for n in self.names]
            step = np.unique(np.concatenate([each.step for each in found]))
            stretch = Stretch(step, [], [])
            for each in found:
                value, known = np.zeros(len(step)), np.zeros(len(step), np.bool_)
                at = np.searchsorted(step, each.step)
                value[at], known[at] = each.low, True
                stretch.values.append(value)
                stretch.known.append(known)
            yield stretch

    def _windows(self, rows: int) -> Iterator[tuple[int | None, int | None]]:
        """Steps between which the longest series has about so many points."""
        most = max(self._counts)
        longest = self.names[self._counts.index(most)]
        firsts = self._series(longest, points=max(1, most // rows)).step.tolist()
        yield from pairwise([None, *firsts[1:], None])


def write_csv(table: WideTable, file: TextIO) -> None:
    """As CSV: an empty cell where a step has no value; names that look like formulas are quoted."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow([csv_cell(name) for name in table.columns])
    for stretch in table.stretches():
        columns = [
            _cells(value, known) for value, known in zip(stretch.values, stretch.known, strict=True)
        ]
        writer.writerows(zip(stretch.step.tolist(), *columns, strict=True))


def _cells(value: npt.NDArray[np.float64], known: npt.NDArray[np.bool_]) -> list[Any]:
    """Numbers as the shortest text that reads back the same; the rest by their JSON names."""
    cells: list[Any] = value.tolist()
    for at in np.flatnonzero(~(known & np.isfinite(value))).tolist():
        cells[at] = _NAMES[str(cells[at])] if known[at] else ""
    return cells


_NAMES = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def write_parquet(table: WideTable, file: BinaryIO) -> None:
    """As Parquet: `step` int64, the others float64, null where a step has no value."""
    try:
        import pyarrow as arrow
        from pyarrow import parquet
    except ImportError:
        raise MissingExtraError.of("pyarrow", "parquet") from None
    if len(set(table.columns)) < len(table.columns):
        raise ConfigError("two columns would have one name; leave one of them out of the names")
    fields = [(name, arrow.float64()) for name in table.columns[1:]]
    schema = arrow.schema([("step", arrow.int64()), *fields])
    with parquet.ParquetWriter(file, schema) as writer:
        for stretch in table.stretches():
            columns = [arrow.array(stretch.step)]
            for value, known in zip(stretch.values, stretch.known, strict=True):
                columns.append(arrow.array(value, mask=~known))
            writer.write_table(arrow.table(columns, schema=schema))

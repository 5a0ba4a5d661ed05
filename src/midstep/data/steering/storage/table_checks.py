"""What the values of the tables must obey: ids in range, no NaN, splits apart, tiers 1 to 4.

Each check gives problems that name file, index and value; the first of a kind stands for all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from midstep.core.errors import DatasetError
from midstep.data.ragged import Ragged
from midstep.data.steering.storage.layout import SPLITS, TABLES, split_table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray


ROWS = 65_536
"""Rows looked at together: a pass over mapped tables must not hold them in memory."""

Label = Callable[[str], str]


def check_tables(
    tables: Mapping[str, Any], counts: Mapping[str, int], label: Label = str, where: str = "dataset"
) -> None:
    """One `DatasetError` with everything that is wrong, or nothing.

    Args:
        tables: by name, their shapes already checked.
        counts: of config.json.
        label: the file of a table, for the message.
        where: what is being checked, for the message.
    """
    problems = list(table_problems(tables, counts, label))
    if problems:
        raise DatasetError(f"the tables of {where} are wrong", problems)


def table_problems(
    tables: Mapping[str, Any], counts: Mapping[str, int], label: Label = str
) -> Iterator[str]:
    """Everything that is wrong with the values, one line a kind."""
    for name, spec in TABLES.items():
        table = tables[name]
        if isinstance(table, Ragged):
            yield from _ragged(table, label(name), counts["n_keywords"])
        elif spec.kind == "float":
            yield from _finite(table, label(name))
        elif spec.below is not None:
            yield from _within(table, label(name), 0, counts[spec.below] - 1)
    for column, count in enumerate(("n_questions", "n_sources")):
        yield from _within(
            tables["pair_index"][:, column],
            f"{label('pair_index')} column {column}",
            0,
            counts[count] - 1,
        )
    yield from _within(tables["negative_tiers"], label("negative_tiers"), 1, 4)
    yield from _within(tables["pair_relevance"], label("pair_relevance"), 0, 1)
    yield from _within(tables["centroid_distances"], label("centroid_distances"), 0, 2, slack=1e-3)
    yield from _positives(tables, label)
    yield from _splits(tables, label, counts["n_pairs"])


def _blocks(table: NDArray[Any]) -> Iterator[tuple[int, NDArray[Any]]]:
    for start in range(0, len(table), ROWS):
        yield start, table[start : start + ROWS]


def _first(wrong: NDArray[Any], start: int) -> list[int]:
    index = [int(each) for each in np.argwhere(wrong)[0]]
    return [index[0] + start, *index[1:]]


def _finite(table: NDArray[Any], label: str) -> Iterator[str]:
    for start, block in _blocks(table):
        wrong = ~np.isfinite(block)
        if wrong.any():
            at = _first(wrong, start)
            yield f"{label}{at} is {block[(at[0] - start, *at[1:])]}, expected a finite number"
            return


def _within(
    table: NDArray[Any], label: str, low: float, high: float, *, slack: float = 0.0
) -> Iterator[str]:
    for start, block in _blocks(table):
        wrong = (block < low - slack) | (block > high + slack)
        if wrong.any():
            at = _first(wrong, start)
            value = block[(at[0] - start, *at[1:])]
            yield f"{label}{at} is {value}, expected {low} to {high}"
            return


def _ragged(table: Ragged, label: str, below: int) -> Iterator[str]:
    offsets, values = table.offsets, table.values
    if offsets[0] != 0 or offsets[-1] != len(values):
        yield f"{label} has offsets from {offsets[0]} to {offsets[-1]}, expected 0 to {len(values)}"
        return
    falling = np.flatnonzero(np.diff(offsets) < 0)
    if len(falling):
        yield f"{label} has an offset {offsets[falling[0] + 1]} at {falling[0] + 1} below the last"
        return
    wrong = np.flatnonzero((values < 0) | (values >= below))
    if len(wrong):
        pair = int(np.searchsorted(offsets, wrong[0], side="right")) - 1
        yield f"{label}[{pair}] holds the keyword {values[wrong[0]]}, expected 0 to {below - 1}"


def _positives(tables: Mapping[str, Any], label: Label) -> Iterator[str]:
    """The pair's own source must not be among its negatives."""
    sources, negatives = tables["pair_index"][:, 1], tables["hard_negatives"]
    for start, block in _blocks(negatives):
        wrong = block == sources[start : start + ROWS, None]
        if wrong.any():
            at = _first(wrong, start)
            yield f"{label('hard_negatives')}{at} is {sources[at[0]]}, the pair's own source"
            return


def _splits(tables: Mapping[str, Any], label: Label, pairs: int) -> Iterator[str]:
    owner = np.full(pairs, -1, dtype=np.int8)
    for number, split in enumerate(SPLITS):
        name = split_table(split)
        ids = tables[name]
        if len(ids) and (ids.min() < 0 or ids.max() >= pairs):
            return  # told already as an id out of range
        taken = np.flatnonzero(owner[ids] >= 0)
        if len(taken):
            other = label(split_table(SPLITS[owner[ids[taken[0]]]]))
            yield f"{label(name)}[{taken[0]}] is pair {ids[taken[0]]}, which is also in {other}"
            return
        owner[ids] = number
        if np.count_nonzero(owner == number) != len(ids):
            order = np.sort(ids)
            twice = order[:-1][order[1:] == order[:-1]][0]
            yield f"{label(name)}[{np.flatnonzero(ids == twice)[1]}] is pair {twice} a second time"
            return

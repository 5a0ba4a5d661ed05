"""Checks of the values in the tables: ids in range, finite numbers, splits apart, tiers 1 to 4.

A problem names file, index and value. Of each kind of problem the first example is reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from midstep.core.errors import DatasetError
from midstep.data.ragged import Ragged
from midstep.data.steering.storage.layout import SPLITS, TABLES, split_table

ROWS = 65_536
"""Rows checked together: a pass over mapped tables must not hold them in memory."""

Label = Callable[[str], str]


def check_tables(
    tables: Mapping[str, Any], counts: Mapping[str, int], label: Label = str, where: str = "dataset"
) -> None:
    """Raise one `DatasetError` that lists everything wrong with the values, if anything is.

    Args:
        tables: the tables by name; their shapes are checked already.
        counts: the counts of config.json.
        label: gives the file of a table, for the message.
        where: what is checked, for the message.
    """
    problems = _table_problems(tables, counts, label)
    DatasetError.raise_if(f"the tables of {where} are wrong", problems)


def _table_problems(
    tables: Mapping[str, Any], counts: Mapping[str, int], label: Label
) -> Iterator[str]:
    for name, spec in TABLES.items():
        table = tables[name]
        if isinstance(table, Ragged):
            yield from _ragged(table, label(name), counts["n_keywords"])
        elif spec.kind == "float":
            yield from _finite(table, label(name))
        elif spec.below is not None:
            yield from _within(table, label(name), 0, counts[spec.below] - 1)
    pair_index = tables["pair_index"]
    for column, count in enumerate(("n_questions", "n_sources")):
        where = f"{label('pair_index')} column {column}"
        yield from _within(pair_index[:, column], where, 0, counts[count] - 1)
    yield from _within(tables["negative_tiers"], label("negative_tiers"), 1, 4)
    yield from _within(tables["pair_relevance"], label("pair_relevance"), 0, 1)
    # A cosine distance of two float32 vectors may round to just outside of 0 to 2.
    yield from _within(tables["centroid_distances"], label("centroid_distances"), 0, 2, slack=1e-3)
    yield from _positives(tables, label)
    yield from _splits(tables, label, counts["n_pairs"])


def _first_wrong(
    table: NDArray[Any], is_wrong: Callable[[NDArray[Any], int], NDArray[np.bool_]]
) -> list[int] | None:
    """The index of the first wrong value; None if all are right.

    Args:
        table: checked block by block.
        is_wrong: given a block and its first row, says which of its values are wrong.
    """
    for start in range(0, len(table), ROWS):
        wrong = is_wrong(table[start : start + ROWS], start)
        if wrong.any():
            row, *rest = (int(each) for each in np.argwhere(wrong)[0])
            return [row + start, *rest]
    return None


def _finite(table: NDArray[Any], label: str) -> Iterator[str]:
    index = _first_wrong(table, lambda block, _start: ~np.isfinite(block))
    if index is not None:
        yield f"{label}{index} is {table[tuple(index)]}, expected a finite number"


def _within(
    table: NDArray[Any], label: str, low: float, high: float, *, slack: float = 0.0
) -> Iterator[str]:
    index = _first_wrong(
        table, lambda block, _start: (block < low - slack) | (block > high + slack)
    )
    if index is not None:
        yield f"{label}{index} is {table[tuple(index)]}, expected {low} to {high}"


def _ragged(table: Ragged, label: str, below: int) -> Iterator[str]:
    offsets, values = table.offsets, table.values
    if offsets[0] != 0 or offsets[-1] != len(values):
        yield f"{label} has offsets from {offsets[0]} to {offsets[-1]}, expected 0 to {len(values)}"
        return
    falling = np.flatnonzero(np.diff(offsets) < 0)
    if len(falling):
        at = falling[0] + 1
        yield f"{label} has the offset {offsets[at]} at {at}, which is below the one before it"
        return
    wrong = np.flatnonzero((values < 0) | (values >= below))
    if len(wrong):
        pair = int(np.searchsorted(offsets, wrong[0], side="right")) - 1
        yield f"{label}[{pair}] holds the keyword {values[wrong[0]]}, expected 0 to {below - 1}"


def _positives(tables: Mapping[str, Any], label: Label) -> Iterator[str]:
    """The source of a pair must not be among its negatives."""
    sources = tables["pair_index"][:, 1]
    index = _first_wrong(
        tables["hard_negatives"],
        lambda block, start: block == sources[start : start + ROWS, None],
    )
    if index is not None:
        yield f"{label('hard_negatives')}{index} is {sources[index[0]]}, the pair's own source"


def _splits(tables: Mapping[str, Any], label: Label, pairs: int) -> Iterator[str]:
    """No pair may be in two splits, or twice in one."""
    owner = np.full(pairs, -1, dtype=np.int8)
    for number, split in enumerate(SPLITS):
        name = split_table(split)
        ids = tables[name]
        if len(ids) and (ids.min() < 0 or ids.max() >= pairs):
            return  # `_within` has reported the id that is out of range
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

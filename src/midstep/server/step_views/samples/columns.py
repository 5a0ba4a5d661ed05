"""Columns of samples: the values of a row, the leaves of nested mappings, targets of several."""

from __future__ import annotations

from typing import Any

import numpy as np

from midstep.control.capture.captured_data import ShownSamples
from midstep.control.samples.batch_parts import SampleSlices
from midstep.control.samples.tensor_facts import rows_of
from midstep.server.array_json import as_array, is_tensor, numbers

CELLS = 10_240
"""Cells of all columns together."""
CHARACTERS = 160_000
"""Characters of all cells together."""
LEAST_CHARACTERS, MOST_CHARACTERS = 12, 48
"""Characters of a cell, by how many there are."""
WHOLE_CHARACTERS = 10_000
"""The same where one sample is shown in full."""


def describe_columns(
    shown: ShownSamples, slices: SampleSlices | None = None, *, whole: bool = False
) -> tuple[list[dict[str, Any]] | None, str | None]:
    """The columns as `ColumnOut`, and how many were left out, in words.

    Args:
        shown: the samples.
        slices: their parts, if not those of `shown`.
        whole: whether cells have all that they can hold.
    """
    slices = shown.slices if slices is None else slices
    count = max(1, shown.stop - shown.first)
    named = [*_input_columns(shown, slices), *_target_columns(shown, slices)]
    most = max(4, CELLS // count)
    room = CHARACTERS // (count * max(1, min(most, len(named))))
    length = WHOLE_CHARACTERS if whole else max(LEAST_CHARACTERS, min(MOST_CHARACTERS, room))
    columns = [
        {"name": name, "role": role, "cells": cells_of(column, length)}
        for name, role, column in named[:most]
    ]
    note = f"{most} of {len(named)} columns" if len(named) > most else None
    return columns or None, note


def _input_columns(shown: ShownSamples, slices: SampleSlices) -> list[tuple[str, str, Any]]:
    names = shown.description.columns
    columns = slices.columns
    if shown.layout.kind == "table" and slices.values is not None:
        array = as_array(slices.values)
        columns = tuple(array[:, index] for index in range(min(len(names), array.shape[1])))
    pairs = zip(names, columns, strict=False)
    return [(name, "input", column) for name, column in pairs if column is not None]


def _target_columns(shown: ShownSamples, slices: SampleSlices) -> list[tuple[str, str, Any]]:
    """One column for each number of a target, unless class names say what they mean."""
    if shown.description.target_kind != "values" or slices.target is None:
        return []
    if class_marks(shown, slices) is not None:
        return []
    array = as_array(slices.target)
    name = shown.description.target_name
    base = "target" if name.isdigit() or not name else name
    return [(f"{base} {index}", "target", array[:, index]) for index in range(array.shape[1])]


def class_marks(shown: ShownSamples, slices: SampleSlices) -> list[str] | None:
    """Targets of 0 and 1 for each class, as the names of their classes; None if they are not."""
    names = {} if shown.view is None else shown.view.class_names
    if shown.description.target_kind != "values" or slices.target is None:
        return None
    return marked_names(as_array(slices.target), names)


def marked_names(marks: Any, names: Any) -> list[str] | None:
    """The names of the classes that are marked by 1, for each row; None if these are not marks."""
    if len(names) < marks.shape[1] or not bool(np.isin(marks, (0, 1)).all()):
        return None
    rows = (np.flatnonzero(row).tolist() for row in marks)
    return [", ".join(names.get(each, str(each)) for each in row) or "none" for row in rows]


def cells_of(column: Any, length: int) -> list[Any]:
    """One number or text for each sample; texts have at most `length` characters."""
    if not is_tensor(column):
        return [_cell(value, length) for value in column]
    array = as_array(column)
    if array.ndim <= 1:
        return numbers(array.reshape(-1))
    return [_listed(row, length) for row in rows_of(array)]


def _cell(value: Any, length: int) -> Any:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    text = str(value)
    return text if len(text) <= length else f"{text[: length - 1]}…"


def _listed(row: Any, length: int) -> str:
    """The first numbers of a row."""
    text = ""
    for value in row.tolist():
        longer = f"{text}, {short(value)}" if text else short(value)
        if len(longer) > length - 3:
            return f"{text}, …"
        text = longer
    return text


def short(value: Any) -> str:
    """A number with four figures.

    >>> short(0.123456), short(float("nan")), short(3)
    ('0.1235', 'NaN', '3')
    """
    if not isinstance(value, float):
        return str(value)
    return f"{value:.4g}".replace("nan", "NaN").replace("inf", "∞")


def broken_cells(slices: SampleSlices, count: int) -> list[int]:
    """How many values of each sample are not finite, in all parts that are shown."""
    counts = np.zeros(count, np.int64)
    for part in (slices.values, slices.target, *slices.columns):
        if is_tensor(part) and len(part) == count:
            array = as_array(part)
            if array.dtype.kind == "f":
                counts += (~np.isfinite(rows_of(array))).sum(axis=1)
    return [int(each) for each in counts]

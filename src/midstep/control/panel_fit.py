"""Whether a panel hint fits the data it came with; asked by readers, never by the training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from midstep.control.panels import Panel

__all__ = ["misfit"]


def misfit(panel: Panel, data: Any) -> str | None:
    """In which way the hint does not fit, in words; None when it does.

    >>> misfit(Panel(kind="text"), "all is well")
    >>> misfit(Panel(kind="table", x="rate"), {"name": ["a"]})
    'a table with a column rate was announced; there are name'
    """
    if panel.kind == "text":
        return None if isinstance(data, str) else _wanted("text", data)
    if panel.kind == "matrix":
        return _misfit_matrix(data)
    if panel.kind == "images":
        return _misfit_images(data)
    return _misfit_columns(panel, data)


def _misfit_columns(panel: Panel, data: Any) -> str | None:
    if not isinstance(data, Mapping) or not data:
        return _wanted("a mapping of columns", data)
    lengths = {str(name): _length(value) for name, value in data.items()}
    missing = sorted(panel.columns - lengths.keys())
    if missing:
        there = ", ".join(list(lengths)[:16])
        return f"a {panel.kind} with a column {missing[0]} was announced; there are {there}"
    if panel.kind == "series" and all(length is None for length in lengths.values()):
        return _misfit_numbers(data)
    if None in lengths.values() or len(set(lengths.values())) > 1:
        shown = ", ".join(f"{name}: {_told(length)}" for name, length in list(lengths.items())[:8])
        return f"columns of one length are needed; there are {shown}"
    if panel.kind == "scatter" and (panel.x is None or panel.y is None):
        return "a scatter needs to be told its x and y"
    return None


def _told(length: int | None) -> str:
    """A length in words."""
    return "no column" if length is None else f"{length:,}"


def _misfit_numbers(data: Mapping[str, Any]) -> str | None:
    for name, value in data.items():
        if not (isinstance(value, int | float) or _dimensions(value) == 0):
            return f"a series needs numbers; {name} is a {type(value).__name__}"
    return None


def _misfit_matrix(data: Any) -> str | None:
    matrix = data.get("matrix") if isinstance(data, Mapping) else data
    shape = _shape(matrix)
    if shape is None or len(shape) != 2:
        return _wanted("a matrix, or a mapping with one under `matrix`", data)
    for name, length in (("labels", shape[0]), ("column_labels", shape[1])):
        given = data.get(name) if isinstance(data, Mapping) else None
        if given is not None and _length(given) != length:
            return f"{name} must be {length:,}, one for each; there are {_told(_length(given))}"
    return None


def _misfit_images(data: Any) -> str | None:
    images = data.get("images") if isinstance(data, Mapping) else data
    shape = _shape(images)
    if shape is None or len(shape) not in (3, 4) or (len(shape) == 4 and shape[1] not in (1, 3)):
        return _wanted("images [N, H, W] or [N, 1 or 3, H, W] under `images`", data)
    labels = data.get("labels") if isinstance(data, Mapping) else None
    if labels is not None and _length(labels) != shape[0]:
        return f"labels must be {shape[0]:,}, one an image; there are {_told(_length(labels))}"
    return None


def _wanted(what: str, data: Any) -> str:
    shape = _shape(data)
    found = type(data).__name__ if shape is None else f"{type(data).__name__} of shape {shape}"
    return f"{what} was announced; this is a {found}"


def _shape(value: Any) -> list[int] | None:
    """Of a tensor, an array, or a list of equally long lists."""
    if hasattr(value, "shape"):
        return [int(side) for side in value.shape]
    if isinstance(value, list | tuple) and value and all(_length(row) is not None for row in value):
        widths = {_length(row) for row in value}
        return [len(value), widths.pop() or 0] if len(widths) == 1 else None
    return None


def _dimensions(value: Any) -> int | None:
    shape = getattr(value, "shape", None)
    return None if shape is None else len(shape)


def _length(value: Any) -> int | None:
    """How many entries a column has; None when it is none."""
    if isinstance(value, list | tuple):
        return len(value)
    return int(value.shape[0]) if _dimensions(value) == 1 else None

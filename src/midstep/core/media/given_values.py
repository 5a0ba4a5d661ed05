"""Recognises what a loop logs as a picture, a text, a histogram or a table, and copies it."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from numbers import Real
from typing import Any

from midstep.core.errors import ConfigError
from midstep.core.media.array_copies import count_of, is_array, own_copy, shape_of
from midstep.core.media.media_value import EncodedPicture, MediaValue, Numbers, Pixels, Rows

MOST_ELEMENTS = 1 << 23
"""Numbers of a picture; of a larger one every n-th pixel is copied."""
MOST_TILES = 64
"""Pictures of a batch that are shown side by side."""
MOST_SAMPLED = 1 << 20
"""Values of a histogram; of more, every n-th one counts."""
MOST_CHARACTERS = 64 << 10
"""Of a text; a longer one is cut when it is written."""
MOST_ROWS = 1_000
MOST_COLUMNS = 64
MOST_CELL_CHARACTERS = 1_000
CHANNELS = (1, 3, 4)
LAYOUTS = ("HW", "CHW", "HWC", "NCHW", "NHWC")
ALWAYS_NUMBERS = frozenset({"loss", "lr"})
"""Breakpoints and the header read these names, so a text or a picture under them is a mistake."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Takes the place of a logged value that could not be copied."""

    reason: str


def own_value(name: str, value: Any, *, arrays: bool = True) -> Any:
    """A logged value that no later change in place reaches: a number, a tensor of one element on
    another device than the CPU, or media. Anything else as it is.

    Nothing waits for a device here. An error of the copy, such as one that a figure raises when
    it is drawn, does not end the training.

    Args:
        name: under which it is logged.
        value: any.
        arrays: whether an array of several elements is meant to be shown.
    """
    if isinstance(value, int | float):
        return value
    if hasattr(value, "detach") and value.numel() == 1:
        return value.item() if value.device.type == "cpu" else value.detach().clone()
    if name in ALWAYS_NUMBERS or (not arrays and hasattr(value, "shape")):
        return value
    try:
        media = media_of(value)
    except Exception as error:  # noqa: BLE001 - code of a library and of the user's classes
        return Unreadable(f"{type(error).__name__}: {error}"[:300])
    return value if media is None else media


def own_picture(array: Any, axes: str) -> Any:
    """A copy of one picture or of several, whose dimensions are known; as `own_value` otherwise.

    >>> own_picture([1.0], "CHW").reason
    'expected an array of 3 dimensions, got a list'
    """
    if not is_array(array) or len(shape_of(array)) != len(axes):
        return Unreadable(f"expected an array of {len(axes)} dimensions, got {described(array)}")
    if axes not in LAYOUTS:
        return Unreadable(f"unknown layout {axes}; expected one of {', '.join(LAYOUTS)}")
    return _pixels(array, axes)


def media_of(value: Any) -> MediaValue | None:
    """A copy of `value` if it can be shown; None for anything else, also for numbers.

    An array of one dimension, or a list of numbers, is a histogram. An array of two dimensions is
    a picture, with a dimension of 1, 3 or 4 channels too, and a batch of these is a sheet.

    >>> media_of("done").kind, media_of([0.1, 0.2]).kind, media_of([{"id": 7}]).kind
    ('text', 'histogram', 'table')
    >>> media_of(0.5) is None
    True
    """
    if isinstance(value, MediaValue):
        return value
    if isinstance(value, str):
        return _text(value)
    if is_array(value):
        return _of_array(value)
    if isinstance(value, list | tuple):
        return _of_list(value)
    library = type(value).__module__.partition(".")[0]
    if library == "PIL" and hasattr(value, "convert"):
        return _of_pil(value)
    if any(each.__module__ == "matplotlib.figure" for each in type(value).__mro__):
        return _of_figure(value)
    if library in ("pandas", "polars") and hasattr(value, "columns"):
        return _of_frame(value)
    return None


def histogram(values: Any) -> MediaValue:
    """A histogram of all values of a tensor or array of any shape, to pass to `log`.

    A list of numbers, or an array of one dimension, is logged as a histogram without it. The
    values are copied here; of more than a million, every n-th one is.

    Raises:
        ConfigError: these are not numbers.

    >>> histogram([0.5, 1.0, 2.0]).content.of
    3
    """
    numbers = _numbers(values)
    if numbers is None:
        raise ConfigError(
            "histogram takes a tensor, an array or a list of numbers that is not empty, "
            f"got {described(values)}"
        )
    return numbers


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> MediaValue:
    """A table to pass to `log`; a list of dicts or a DataFrame is logged as one without it.

    Args:
        columns: their names.
        rows: each with one cell for each column: a number, text, or None. 1,000 rows are kept.

    Raises:
        ConfigError: there is no column, or a row has another number of cells.

    >>> table(["id", "guess"], [[7, "cat"], [9, "dog"]]).content.columns
    ('id', 'guess')
    """
    names, given = [str(name) for name in columns], list(rows)
    if not names:
        raise ConfigError("table takes at least one column")
    for row in given:
        if len(row) != len(names):
            raise ConfigError(
                f"table has {len(names)} columns, but a row has {len(row)} cells: {row!r:.80}"
            )
    return _rows(names, given, len(given))


def described(value: Any) -> str:
    """A value in words, for a message: its type, and its shape if it has one.

    >>> described([]), described({"a": 1})
    ('an empty list', 'a dict')
    """
    name = type(value).__name__
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple):
        return f"a {name} of shape {tuple(shape)}"
    is_empty = isinstance(value, list | tuple) and not value
    article = "an empty" if is_empty else "an" if name[:1].lower() in "aeiou" else "a"
    return f"{article} {name}"


# -- arrays and lists ------------------------------------------------------------------------------


def _of_array(array: Any) -> MediaValue | None:
    shape = shape_of(array)
    if count_of(array) < 2:
        return None  # a scalar, or nothing
    if len(shape) == 1:
        return _numbers(array)
    axes = _axes(shape, is_tensor=hasattr(array, "detach"))
    return None if axes is None else _pixels(array, axes)


def _axes(shape: Sequence[int], *, is_tensor: bool) -> str | None:
    """What the dimensions of a picture are; None if it can be none.

    If both are possible, channels come first in a tensor and last in an array, as usual.
    """
    first, last = shape[-3] in CHANNELS if len(shape) > 2 else False, shape[-1] in CHANNELS
    batch = "" if len(shape) < 4 else "N"
    if len(shape) == 2:
        return "HW"
    if len(shape) > 4 or not (first or last):
        return None
    return batch + ("CHW" if first and (is_tensor or not last) else "HWC")


def _pixels(array: Any, axes: str) -> MediaValue:
    of = 1
    if axes[0] == "N":
        of, array = int(array.shape[0]), array[:MOST_TILES]
    every = 1
    while count_of(array) > MOST_ELEMENTS * every * every:
        every += 1
    if every > 1:
        array = array[tuple(slice(None, None, every if axis in "HW" else 1) for axis in axes)]
    copy, ready = own_copy(array)
    return MediaValue("image", Pixels(copy, axes, every, of), int(copy.nbytes), ready)


def _numbers(values: Any) -> MediaValue | None:
    if is_array(values):
        if not (count := count_of(values)):
            return None
        copy, ready = own_copy(values.reshape(-1)[:: -(-count // MOST_SAMPLED)])
        return MediaValue("histogram", Numbers(copy, count), int(copy.nbytes), ready)
    if not (isinstance(values, list | tuple) and values):
        return None
    sample = list(values[:: -(-len(values) // MOST_SAMPLED)])
    if all(isinstance(each, Real) for each in sample):
        return MediaValue("histogram", Numbers(sample, len(values)), 32 * len(sample))
    if not all(is_array(each) and hasattr(each, "detach") and each.numel() == 1 for each in sample):
        return None
    torch: Any = sys.modules["torch"]  # tensors of one element, such as the losses of a batch
    joined = torch.stack([each.detach().reshape(()) for each in sample])
    return _numbers(joined)


def _of_list(values: Sequence[Any]) -> MediaValue | None:
    first = values[0] if values else None
    if isinstance(first, Mapping) and all(isinstance(each, Mapping) for each in values):
        columns = list(dict.fromkeys(name for row in values[:MOST_ROWS] for name in row))
        rows = ([row.get(name) for name in columns] for row in values)
        return _rows([str(name) for name in columns], rows, len(values)) if columns else None
    if isinstance(first, str) and all(isinstance(each, str) for each in values):
        return _rows(["text"], ([each] for each in values), len(values))
    return _numbers(values)


# -- tables and texts ------------------------------------------------------------------------------


def _rows(columns: Sequence[str], rows: Iterable[Sequence[Any]], of: int) -> MediaValue:
    names = tuple(columns[:MOST_COLUMNS])
    kept = [[_cell(cell) for cell in islice(row, len(names))] for row in islice(rows, MOST_ROWS)]
    size = sum(4 * len(cell) if isinstance(cell, str) else 32 for row in kept for cell in row)
    return MediaValue("table", Rows(names, kept, of), size)


def _cell(cell: Any) -> Any:
    """A cell that the loop cannot change any more; a tensor on a device is read later."""
    if cell is None or isinstance(cell, bool | int | float):
        return cell
    if isinstance(cell, str):
        return cell[: MOST_CELL_CHARACTERS + 1]
    if is_array(cell):
        return own_copy(cell.reshape(-1))[0] if count_of(cell) == 1 else described(cell)
    try:
        return str(cell)[: MOST_CELL_CHARACTERS + 1]
    except Exception:  # noqa: BLE001 - code of the user's class; the table must not end the training
        return described(cell)


def _text(text: str) -> MediaValue:
    # Only what is far too long is dropped here; the note on its length comes when it is written.
    return MediaValue("text", text, 4 * len(text))


def _of_frame(frame: Any) -> MediaValue | None:
    """The first rows of a DataFrame of pandas or polars."""
    columns, head = [str(name) for name in frame.columns], frame.head(MOST_ROWS)
    is_polars = hasattr(head, "rows")
    rows = head.rows() if is_polars else head.itertuples(index=False, name=None)
    return _rows(columns, rows, len(frame)) if columns else None


# -- pictures of libraries -------------------------------------------------------------------------


def _of_pil(picture: Any) -> MediaValue:
    """An image of Pillow. Its palette, if it has one, is applied."""
    import numpy as np

    mode = picture.mode if picture.mode in ("L", "RGB", "RGBA") else "RGB"
    pixels = np.array(picture if picture.mode == mode else picture.convert(mode))
    return _pixels(pixels, "HW" if pixels.ndim == 2 else "HWC")


def _of_figure(figure: Any) -> MediaValue:
    """A figure of matplotlib. It is drawn here: the loop may clear it as soon as `log` returns."""
    data = io.BytesIO()
    figure.savefig(data, format="png", metadata={"Software": None})
    png = data.getvalue()
    return MediaValue("image", EncodedPicture(png), len(png))

"""Panel hints: how step data wants to be shown, so that a page needs no code of its own for it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, get_args

from midstep.core.errors import ConfigError

PanelKind = Literal["table", "scatter", "matrix", "images", "series", "text"]
Scale = Literal["signed", "similarity", "range"]
Tone = Literal["bad", "warn", "good", "neutral"]


def _check_text(owner: Any, *names: str) -> None:
    for name in names:
        value = getattr(owner, name)
        if value is not None and not isinstance(value, str):
            raise ConfigError(f"{name} of a panel must be text, got {value!r}")


def _check_choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ConfigError(f"{name} of a panel must be one of {', '.join(choices)}, got {value!r}")


def _check_whole(name: str, value: Any, least: int, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ConfigError(
            f"{name} of a panel must be a whole number from {least} to {most}, got {value!r}"
        )


@dataclass(frozen=True, kw_only=True)
class Field:
    """How one column is written."""

    label: str | None = None
    """What stands above it; its name when left out."""
    precision: int | None = None
    """Significant digits; the page's own choice when left out."""
    unit: str | None = None
    """For example `s` or `%`."""

    def __post_init__(self) -> None:
        _check_text(self, "label", "unit")
        if self.precision is not None:
            _check_whole("precision", self.precision, 0, 17)

    def describe(self) -> dict[str, Any]:
        """As it travels."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class Level:
    """A word with a colour for the values below or above a limit; for all others without one."""

    word: str
    """For example `dead`."""
    tone: Tone = "neutral"
    """One of bad, warn, good, neutral."""
    below: float | None = None
    """It holds for values smaller than this."""
    above: float | None = None
    """It holds for values larger than this; with `below` too, for those in between."""

    def __post_init__(self) -> None:
        _check_text(self, "word")
        _check_choice("tone", self.tone, get_args(Tone))
        for name in ("below", "above"):
            limit = getattr(self, name)
            is_number = isinstance(limit, int | float) and not isinstance(limit, bool)
            if limit is not None and not (is_number and math.isfinite(limit)):
                raise ConfigError(f"{name} of a panel's level must be a number, got {limit!r}")

    def describe(self) -> dict[str, Any]:
        """As it travels."""
        return {"below": self.below, "above": self.above, "word": self.word, "tone": self.tone}


@dataclass(frozen=True, kw_only=True)
class Status:
    """Which column says how a row is doing, and in which words."""

    field: str
    """Name of the column."""
    levels: tuple[Level, ...]
    """The first that holds counts."""
    otherwise: Level = Level(word="")
    """When none holds."""

    def __post_init__(self) -> None:
        _check_text(self, "field")
        object.__setattr__(self, "levels", tuple(self.levels))

    def describe(self) -> dict[str, Any]:
        """As it travels."""
        return {
            "field": self.field,
            "levels": [level.describe() for level in self.levels],
            "otherwise": {"word": self.otherwise.word, "tone": self.otherwise.tone},
        }


@dataclass(frozen=True, kw_only=True)
class Sort:
    """The order in which rows come at first."""

    field: str
    """Name of the column."""
    descending: bool = True
    """Largest first."""

    def __post_init__(self) -> None:
        _check_text(self, "field")

    def describe(self) -> dict[str, Any]:
        """As it travels."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class Panel:
    """How one entry of the step data is shown. A hint: what does not fit is shown as it is.

    >>> Panel(kind="scatter", x="size", y="loss", log_y=True).describe()["y"]
    'loss'
    """

    kind: PanelKind
    """table, scatter, matrix, images, series or text."""
    title: str | None = None
    """Above the panel; the key of the step data when left out."""
    x: str | None = None
    """Column along the horizontal axis."""
    y: str | None = None
    """Column along the vertical axis."""
    colour: str | None = None
    """Column that colours the points."""
    log_x: bool = False
    """Whether the horizontal axis is logarithmic."""
    log_y: bool = False
    """Whether the vertical axis is logarithmic."""
    label: str | None = None
    """Column with the names of the rows."""
    fields: Mapping[str, Field] = field(default_factory=dict)
    """How columns are written, by name."""
    status: Status | None = None
    """Which column says how a row is doing."""
    sort: Sort | None = None
    """The order in which rows come at first."""
    source: str | None = None
    """Name of the tensor that can be watched and whose rows these are."""
    scale: Scale | None = None
    """Colours of a matrix: signed (-1 to 1), similarity (0 to 1) or range (what it holds)."""
    shape: tuple[int, int] | None = None
    """Height and width of the image that a row is shown as."""

    def __post_init__(self) -> None:
        _check_choice("kind", self.kind, get_args(PanelKind))
        _check_text(self, "title", "x", "y", "colour", "label", "source")
        if self.scale is not None:
            _check_choice("scale", self.scale, get_args(Scale))
        if self.shape is not None:
            if len(self.shape) != 2:
                raise ConfigError(f"shape of a panel must be (height, width), got {self.shape!r}")
            for side in self.shape:
                _check_whole("shape", side, 1, 1 << 20)
            object.__setattr__(self, "shape", tuple(self.shape))

    @property
    def columns(self) -> frozenset[str]:
        """Names of the columns that it speaks of."""
        names = {self.x, self.y, self.colour, self.label, *self.fields}
        names.add(self.status.field if self.status else None)
        names.add(self.sort.field if self.sort else None)
        return frozenset(name for name in names if name is not None)

    def describes_rows_of(self, source: str) -> bool:
        """Whether the rows of such data may be those of this tensor; rows with names are not.

        >>> Panel(kind="table", source="head.weight").describes_rows_of("encoder.weight")
        False
        """
        return self.label is None if self.source is None else self.source == source

    def describe(self) -> dict[str, Any]:
        """As it travels: plain JSON, every field there."""
        return {
            "kind": self.kind,
            "title": self.title,
            "x": self.x,
            "y": self.y,
            "colour": self.colour,
            "log_x": self.log_x,
            "log_y": self.log_y,
            "label": self.label,
            "fields": {name: each.describe() for name, each in self.fields.items()},
            "status": self.status.describe() if self.status else None,
            "sort": self.sort.describe() if self.sort else None,
            "source": self.source,
            "scale": self.scale,
            "shape": list(self.shape) if self.shape else None,
        }


def panel_problem(panel: Panel, data: Any) -> str | None:
    """In which way the hint does not fit, in words; None when it does.

    >>> panel_problem(Panel(kind="text"), "all is well")
    >>> panel_problem(Panel(kind="table", x="rate"), {"name": ["a"]})
    'a table with a column rate was announced; there are name'
    """
    if panel.kind == "text":
        return None if isinstance(data, str) else _expected("text", data)
    if panel.kind == "matrix":
        return _matrix_problem(data)
    if panel.kind == "images":
        return _images_problem(data)
    return _columns_problem(panel, data)


def _columns_problem(panel: Panel, data: Any) -> str | None:
    if not isinstance(data, Mapping) or not data:
        return _expected("a mapping of columns", data)
    lengths = {str(name): _length(value) for name, value in data.items()}
    missing = sorted(panel.columns - lengths.keys())
    if missing:
        there = ", ".join(list(lengths)[:16])
        return f"a {panel.kind} with a column {missing[0]} was announced; there are {there}"
    if panel.kind == "series" and all(length is None for length in lengths.values()):
        return _numbers_problem(data)
    if None in lengths.values() or len(set(lengths.values())) > 1:
        shown = ", ".join(
            f"{name}: {_format_length(length)}" for name, length in list(lengths.items())[:8]
        )
        return f"columns of one length are needed; there are {shown}"
    if panel.kind == "scatter" and (panel.x is None or panel.y is None):
        return "a scatter needs to be told its x and y"
    return None


def _format_length(length: int | None) -> str:
    """A length in words."""
    return "no column" if length is None else f"{length:,}"


def _numbers_problem(data: Mapping[str, Any]) -> str | None:
    for name, value in data.items():
        if not (isinstance(value, int | float) or _dimensions(value) == 0):
            return f"a series needs numbers; {name} is a {type(value).__name__}"
    return None


def _matrix_problem(data: Any) -> str | None:
    matrix = data.get("matrix") if isinstance(data, Mapping) else data
    shape = _shape(matrix)
    if shape is None or len(shape) != 2:
        return _expected("a matrix, or a mapping with one under `matrix`", data)
    for name, length in (("labels", shape[0]), ("column_labels", shape[1])):
        given = data.get(name) if isinstance(data, Mapping) else None
        if given is not None and _length(given) != length:
            count = _format_length(_length(given))
            return f"{name} must be {length:,}, one for each; there are {count}"
    return None


def _images_problem(data: Any) -> str | None:
    images = data.get("images") if isinstance(data, Mapping) else data
    shape = _shape(images)
    if shape is None or len(shape) not in (3, 4) or (len(shape) == 4 and shape[1] not in (1, 3)):
        return _expected("images [N, H, W] or [N, 1 or 3, H, W] under `images`", data)
    labels = data.get("labels") if isinstance(data, Mapping) else None
    if labels is not None and _length(labels) != shape[0]:
        count = _format_length(_length(labels))
        return f"labels must be {shape[0]:,}, one an image; there are {count}"
    return None


def _expected(what: str, data: Any) -> str:
    shape = _shape(data)
    given = type(data).__name__ if shape is None else f"{type(data).__name__} of shape {shape}"
    return f"{what} was announced; this is a {given}"


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

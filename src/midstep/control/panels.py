"""Panels: how the page shows step data, so that a hook needs no front-end code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, get_args

from midstep.control.setting_checks import check_integer, check_number
from midstep.core.errors import ConfigError

PanelKind = Literal["table", "scatter", "matrix", "images", "series", "text"]
Scale = Literal["signed", "similarity", "range"]
Tone = Literal["bad", "warn", "good", "neutral"]


def _check_texts(owner: Any, *names: str) -> None:
    # Empty text is allowed: a level without a word shows nothing.
    for name in names:
        value = getattr(owner, name)
        if value is not None and not isinstance(value, str):
            raise ConfigError(f"{name} of a panel must be text, got {value!r}")


def _check_choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ConfigError(f"{name} of a panel must be one of {', '.join(choices)}, got {value!r}")


@dataclass(frozen=True, kw_only=True)
class Field:
    """How one column is formatted."""

    label: str | None = None
    """Heading of the column; its name when left out."""
    precision: int | None = None
    """Significant digits; the page chooses when left out."""
    unit: str | None = None
    """For example `s` or `%`."""

    def __post_init__(self) -> None:
        _check_texts(self, "label", "unit")
        if self.precision is not None:
            # 17 digits identify every float64.
            check_integer("precision of a panel", self.precision, least=0, most=17)


@dataclass(frozen=True, kw_only=True)
class Level:
    """A word with a colour for values below or above a limit."""

    word: str
    """For example `dead`."""
    tone: Tone = "neutral"
    """One of bad, warn, good, neutral."""
    below: float | None = None
    """It applies to values smaller than this."""
    above: float | None = None
    """It applies to values larger than this; with `below`, to the values in between."""

    def __post_init__(self) -> None:
        _check_texts(self, "word")
        _check_choice("tone", self.tone, get_args(Tone))
        for name in ("below", "above"):
            if getattr(self, name) is not None:
                check_number(f"{name} of a panel's level", getattr(self, name))


@dataclass(frozen=True, kw_only=True)
class Status:
    """A column whose values are shown as words, such as `dead` or `alive`."""

    field: str
    """Name of the column."""
    levels: tuple[Level, ...]
    """The first one that applies is used."""
    otherwise: Level = Level(word="")
    """Used if no level applies."""

    def __post_init__(self) -> None:
        _check_texts(self, "field")
        object.__setattr__(self, "levels", tuple(self.levels))  # a list is accepted too

    def describe(self) -> dict[str, Any]:
        """The status as JSON."""
        otherwise = {"word": self.otherwise.word, "tone": self.otherwise.tone}
        return {**asdict(self), "levels": [*map(asdict, self.levels)], "otherwise": otherwise}


@dataclass(frozen=True, kw_only=True)
class Sort:
    """The initial order of the rows."""

    field: str
    """Name of the column."""
    descending: bool = True
    """Largest first."""

    def __post_init__(self) -> None:
        _check_texts(self, "field")


@dataclass(frozen=True, kw_only=True)
class Panel:
    """How one entry of the step data is shown. Data that does not fit is shown as raw values.

    >>> Panel(kind="scatter", x="size", y="loss", log_y=True).describe()["y"]
    'loss'
    """

    kind: PanelKind
    """table, scatter, matrix, images, series or text."""
    title: str | None = None
    """Heading of the panel; the key of the step data when left out."""
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
    """How columns are formatted, by name."""
    status: Status | None = None
    """The column that is shown as words."""
    sort: Sort | None = None
    """The initial order of the rows."""
    source: str | None = None
    """Name of the tensor whose rows these are; a click on a row watches it."""
    scale: Scale | None = None
    """Colours of a matrix: signed (-1 to 1), similarity (0 to 1) or range (its own limits)."""
    shape: tuple[int, int] | None = None
    """Height and width of the image that a row is shown as."""

    def __post_init__(self) -> None:
        _check_choice("kind", self.kind, get_args(PanelKind))
        _check_texts(self, "title", "x", "y", "colour", "label", "source")
        object.__setattr__(self, "fields", dict(self.fields))  # `asdict` copies no other mapping
        if self.scale is not None:
            _check_choice("scale", self.scale, get_args(Scale))
        if self.shape is not None:
            if len(self.shape) != 2:
                raise ConfigError(f"shape of a panel must be (height, width), got {self.shape!r}")
            for side in self.shape:
                check_integer("shape of a panel", side, least=1, most=1 << 20)
            object.__setattr__(self, "shape", tuple(self.shape))

    @property
    def columns(self) -> frozenset[str]:
        """Names of all columns that the panel refers to."""
        names = {self.x, self.y, self.colour, self.label, *self.fields}
        names.add(self.status.field if self.status else None)
        names.add(self.sort.field if self.sort else None)
        return frozenset(name for name in names if name is not None)

    def describes_rows_of(self, source: str) -> bool:
        """Whether the rows of this panel can be rows of that tensor; named rows cannot.

        >>> Panel(kind="table", source="head.weight").describes_rows_of("encoder.weight")
        False
        """
        return self.label is None if self.source is None else self.source == source

    def describe(self) -> dict[str, Any]:
        """The panel as JSON, with every field."""
        return {
            **asdict(self),
            "status": self.status.describe() if self.status else None,
            "shape": list(self.shape) if self.shape else None,
        }


def panel_problem(panel: Panel, data: Any) -> str | None:
    """Why the data does not fit the panel, in words; None if it fits.

    >>> panel_problem(Panel(kind="text"), "all is well")
    >>> panel_problem(Panel(kind="table", x="rate"), {"name": ["a"]})
    'the table needs a column rate; the data has name'
    """
    # Checked in the reader's thread and returned as a note, never raised: a wrong panel must not
    # switch off the hook that pushed the data.
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
        return f"the {panel.kind} needs a column {missing[0]}; the data has {there}"
    # Numbers are one point per step, vectors a whole series.
    if panel.kind == "series" and all(length is None for length in lengths.values()):
        return _numbers_problem(data)
    if None in lengths.values() or len(set(lengths.values())) > 1:
        shown = ", ".join(
            f"{name}: {_format_length(length)}" for name, length in list(lengths.items())[:8]
        )
        return f"all columns must have the same length; the data has {shown}"
    if panel.kind == "scatter" and (panel.x is None or panel.y is None):
        return "a scatter needs the columns x and y in its panel"
    return None


def _format_length(length: int | None) -> str:
    return "no column" if length is None else f"{length:,}"


def _numbers_problem(data: Mapping[str, Any]) -> str | None:
    for name, value in data.items():
        if not (isinstance(value, int | float) or _dimensions(value) == 0):
            return f"a series needs numbers; {name} is of type {type(value).__name__}"
    return None


def _matrix_problem(data: Any) -> str | None:
    shape = _shape(data.get("matrix") if isinstance(data, Mapping) else data)
    if shape is None or len(shape) != 2:
        return _expected("a matrix, or a mapping with one under `matrix`", data)
    return _labels_problem(data, labels=shape[0], column_labels=shape[1])


def _images_problem(data: Any) -> str | None:
    shape = _shape(data.get("images") if isinstance(data, Mapping) else data)
    if shape is None or len(shape) not in (3, 4) or (len(shape) == 4 and shape[1] not in (1, 3)):
        return _expected("images [N, H, W] or [N, 1 or 3, H, W] under `images`", data)
    return _labels_problem(data, labels=shape[0])


def _labels_problem(data: Any, **lengths: int) -> str | None:
    for name, length in lengths.items():
        labels = data.get(name) if isinstance(data, Mapping) else None
        if labels is not None and _length(labels) != length:
            count = _format_length(_length(labels))
            return f"{name} must have {length:,} entries; there are {count}"
    return None


def _expected(what: str, data: Any) -> str:
    shape = _shape(data)
    given = type(data).__name__ if shape is None else f"{type(data).__name__} of shape {shape}"
    return f"the panel needs {what}; the data is a {given}"


def _shape(value: Any) -> list[int] | None:
    """The shape of a tensor, an array, or a list of lists of equal length; else None."""
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
    """How many entries a column has; None if the value is not a column."""
    if isinstance(value, list | tuple):
        return len(value)
    return int(value.shape[0]) if _dimensions(value) == 1 else None

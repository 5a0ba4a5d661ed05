"""Step data on the wire: what hooks pushed, and the panels that show it."""

from __future__ import annotations

from typing import Any

from midstep.control.panels import PanelKind, Scale, Tone
from midstep.server.models import Out

__all__ = ["PanelOut", "StepDataKeys", "StepDataOut"]


class FieldOut(Out):
    """How one column is written."""

    label: str | None
    precision: int | None
    """Significant digits."""
    unit: str | None


class WordOut(Out):
    """A word with a colour."""

    word: str
    tone: Tone


class LevelOut(WordOut):
    """A word for the values below or above a limit."""

    below: float | None
    above: float | None


class StatusOut(Out):
    """Which column says how a row is doing; the first level that holds counts."""

    field: str
    levels: list[LevelOut]
    otherwise: WordOut


class SortOut(Out):
    """The order in which rows come at first."""

    field: str
    descending: bool


class PanelOut(Out):
    """How one entry of the step data wants to be shown; a hint, which may not fit."""

    kind: PanelKind
    title: str | None
    """The key when null."""
    x: str | None
    """Columns by name, here and below."""
    y: str | None
    colour: str | None
    log_x: bool
    log_y: bool
    label: str | None
    """Column with the names of the rows."""
    fields: dict[str, FieldOut]
    status: StatusOut | None
    sort: SortOut | None
    source: str | None
    """Name of the watchable tensor whose rows these are."""
    scale: Scale | None
    """Colours of a matrix."""
    shape: list[int] | None
    """Height and width of the image that a row is shown as."""


class StepDataKeys(Out):
    """What hooks pushed this step."""

    step: int | None
    keys: list[str]
    panels: dict[str, PanelOut | None]
    """By key, how it wants to be shown; null where the hook did not say."""


class StepDataOut(Out):
    """One entry of the step data, encoded."""

    key: str
    step: int
    data: Any
    summarised: bool
    """Whether any tensor inside was replaced by its summary; `?full=1` sends it whole."""
    panel: PanelOut | None
    """How it wants to be shown."""
    fits: bool
    """Whether the data is what the panel announces; if not, `note` says why."""
    note: str | None = None
    """What could not be encoded as it stands, and how the panel does not fit."""

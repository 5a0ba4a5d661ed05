"""Responses about what a run logged besides numbers."""

from __future__ import annotations

from midstep.core.media.media_value import MediaKind
from midstep.server.schema_base import Number, Out

MediaCell = bool | int | float | str | None


class MediaGroupOut(Out):
    """All of one kind that was logged under one name."""

    id: str
    key: str
    """The name under which it was logged."""
    kind: MediaKind
    logged: int
    """How many were logged; the first, the last and evenly spaced ones between are kept."""
    abandoned: int
    """Kept ones of steps that were left by going back; they are not among the items."""
    bytes: int
    """Size on disk of what is kept."""
    numbers: list[int]
    """Which ones are kept, counted from 0 over all that were logged."""
    steps: list[int]
    """The step of each of them, rising."""


class MediaListOut(Out):
    """Everything that a run logged besides numbers."""

    groups: list[MediaGroupOut]
    """The groups, sorted by name."""


class PictureOut(Out):
    """What is known of a picture."""

    width: int
    height: int
    low: float | None
    """The value that is drawn black; null for a picture of a library."""
    high: float | None
    """The value that is drawn white."""
    nonfinite: int
    """Values that are NaN or infinite; their pixels have a colour of their own."""
    every: int
    """Of a very large picture only every n-th pixel is shown; this is n."""
    tiles: int
    """Pictures side by side; 1 for a single one."""
    of: int
    """How many there were; fewer are shown if there were very many."""


class HistogramOut(Out):
    """Counts of values in equal bins."""

    low: float
    """Where the first bin begins."""
    high: float
    """Where the last bin ends."""
    counts: list[int]
    """Values in each bin."""
    mean: float | None
    """Mean of the finite values; null if there are none."""
    values: int
    """How many values were logged."""
    counted: int
    """How many of them, evenly spaced, were counted."""
    nonfinite: int
    """How many of those were NaN or infinite."""


class TextAboutOut(Out):
    """What is known of a text."""

    characters: int
    """Length of the whole text."""
    cut: bool
    """Whether only its beginning was kept."""


class TableAboutOut(Out):
    """What is known of a table."""

    rows: int
    """Rows that were kept."""
    of: int
    """Rows that it had."""
    columns: int
    """Columns that were kept."""


class MediaItemOut(Out):
    """One logged picture, text, histogram or table; one of the last four fields is set."""

    number: int
    step: int
    timeline: int
    at: float
    """Wall time, seconds since 1970."""
    bytes: int
    picture: PictureOut | None
    histogram: HistogramOut | None
    text: TextAboutOut | None
    table: TableAboutOut | None


class MediaGroupDetail(MediaGroupOut):
    """A group with what is known of each item."""

    items: list[MediaItemOut]
    """The items, sorted by step."""


class MediaContentOut(Out):
    """The content of a text or of a table."""

    text: str | None
    """Null for a table."""
    columns: list[str]
    """Names of the columns of a table."""
    rows: list[list[MediaCell | Number]]
    """Rows of a table; each has a cell for each column."""

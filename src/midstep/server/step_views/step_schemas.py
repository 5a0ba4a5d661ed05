"""Responses about a step: its batch, its step data, and the panels that show them."""

from __future__ import annotations

from typing import Any, Literal

from midstep.control.panels import PanelKind, Scale, Tone
from midstep.control.samples.layout import SampleKind
from midstep.server.schema_base import Number, Out


class FieldOut(Out):
    """How one column is formatted."""

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
    """The column that decides the status of a row; the first level that matches counts."""

    field: str
    levels: list[LevelOut]
    otherwise: WordOut


class SortOut(Out):
    """The initial order of the rows."""

    field: str
    descending: bool


class PanelOut(Out):
    """How to show one entry of the step data; a hint that may not fit the data."""

    kind: PanelKind
    title: str | None
    """The key of the entry when null."""
    x: str | None
    """Name of a column, like `y`, `colour` and `label`."""
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
    """The keys of the step data of the last shown step."""

    step: int | None
    keys: list[str]
    panels: dict[str, PanelOut | None]
    """How to show each key; null if the hook gave no hint."""


class StepDataOut(Out):
    """One entry of the step data, encoded."""

    key: str
    step: int
    data: Any
    summarised: bool
    """Whether a tensor inside was replaced by its summary; `?full=1` sends it whole."""
    panel: PanelOut | None
    """How to show it."""
    fits: bool
    """Whether the data fits the panel; if not, `note` has the reason."""
    note: str | None = None
    """What could not be encoded exactly, and why the data does not fit the panel."""
    nonfinite: tuple[str, ...] = ()
    """JSON pointers of numbers, or arrays of numbers, in `data` where the strings NaN, Infinity and
    -Infinity are numbers and not text. Left out if there is none."""


class GridOut(Out):
    """How to cut the picture into tiles: tile i is at column i % columns, row i // columns."""

    columns: int
    rows: int
    tile_width: int
    tile_height: int
    channels: int
    low: Number
    """Value drawn black."""
    high: Number
    """Value drawn white."""
    stride: int
    """A tile shows every n-th row and column of its image; this is n."""
    full_width: int
    """Width of an image in the batch."""
    full_height: int


class ClassOut(Out):
    """A class of a mask."""

    id: int
    """Value of its pixels in the picture of the mask; 255 for those that no class counts."""
    name: str
    share: float
    """Share of the class in the shown pixels."""


class MaskOut(Out):
    """Masks of the images: `…/batch/picture?layer=mask` has a class in each pixel."""

    layers: list[Literal["mask", "prediction"]]
    """`prediction` is what the model says."""
    classes: list[ClassOut]
    """The classes that occur."""


class FramesOut(Out):
    """Images of one sample, of which the picture of the batch has the first."""

    count: int
    word: Literal["frame", "channel"]
    """What one of the frames is, such as a point in time."""


class LinesOut(Out):
    """Curves: the smallest and the largest value of each interval, channel after channel."""

    channels: int
    points: int
    """Intervals of a channel."""
    length: int
    """Values of a channel at full resolution."""
    low: list[list[Number]]
    """The smallest values, `channels * points` for each sample; NaN where one is not finite."""
    high: list[list[Number]]


class ColumnOut(Out):
    """One value for each sample."""

    name: str
    role: Literal["input", "target"]
    cells: list[Number | str]


class BatchOut(Out):
    """The last captured batch: everything but its picture, at most 300 kB."""

    step: int
    """Index of the batch, finished steps minus one."""
    loss: Number | None
    kind: SampleKind
    shape: list[int]
    dtype: str
    count: int
    """Samples in the batch."""
    first: int
    """Index of the first shown sample."""
    shown: int
    """Samples in the picture or the rows, at most 512."""
    png: str | None
    """Base64 PNG of the grid, for images, if `inline` was given; its tiles may be coarser."""
    grid: GridOut | None
    """Geometry of the picture, for images."""
    mask: MaskOut | None
    frames: FramesOut | None
    """The frames, for image sequences."""
    rows: list[list[Number]] | None
    """First values of each sample, for tokens and vectors. Tokens are without padding."""
    texts: list[str] | None
    """The beginning of each text, for texts and for tokens with a tokenizer."""
    lines: LinesOut | None
    """The curves, for sounds and series."""
    sample_rate: float | None
    """Samples per second of a sound, in hertz."""
    columns: list[ColumnOut] | None
    """Columns of tables, nested mappings, other named parts, and targets with several numbers."""
    note: str | None
    """What is not shown in the way that the view requests, and why."""
    labels: list[Number | str] | None
    """The target of each sample; null where it is a mask or has columns. A text is empty where the
    target says nothing that the input does not."""
    losses: list[Number] | None
    """The loss of each sample as a batch of one."""
    loss_shares: list[Number] | None
    """The share of each in the loss of the whole batch."""
    loss_note: str | None
    """Why losses of single samples are not known."""
    loss_fact: str | None
    """Which samples of the whole batch stand out, such as `2 of 128 samples carry 40 % of the
    loss`."""
    predictions: list[Number | str] | None
    """A class, a value, or a text with several; null if it is not known, or a map."""
    probabilities: list[Number] | None
    """The probability of each predicted class."""
    sample_ids: list[int] | None
    etag: str
    """Names the capture, as the header does; the picture of the same capture has the same."""
    nonfinite: int
    """Values that are not finite, in what is shown; of a batch that is held whole, in all of it."""
    nonfinite_in: list[int] | None
    """How many such values each sample has; null if there are none."""


class SampleOut(Out):
    """One sample of the last batch that was captured whole, at full resolution."""

    step: int
    """Index of the batch, finished steps minus one."""
    index: int
    """Position in the batch."""
    count: int
    """Samples in the batch."""
    etag: str
    kind: SampleKind
    shape: list[int]
    """Shape of the sample: channels, height and width of an image."""
    dtype: str
    width: int | None
    """Width of an image; like `height` and `channels` null for other kinds."""
    height: int | None
    channels: int | None
    low: Number
    """Value drawn black."""
    high: Number
    """Value drawn white."""
    nonfinite: int
    """Values that are not finite."""
    label: Number | str | None
    prediction: Number | str | None
    probability: Number | None
    """Probability of the predicted class."""
    loss: Number | None
    loss_share: Number | None
    """Its share in the loss of the whole batch."""
    sample_id: int | None
    values: list[Number] | None
    """All values, row after row; null if there are more than 8,192."""
    text: str | None
    """The whole text."""
    tokens: list[int] | None
    """The first 4,096 tokens, without padding."""
    pieces: list[str] | None
    """The text of each of these tokens alone."""
    mask: MaskOut | None
    frames: FramesOut | None
    grid: GridOut | None
    """Geometry of the picture of all frames."""
    lines: LinesOut | None
    sample_rate: float | None
    columns: list[ColumnOut] | None
    """With one cell each."""
    note: str | None


class TensorSummary(Out):
    """A tensor too large to send as JSON."""

    summary: Literal[True] = True
    shape: list[int]
    dtype: str
    elements: int
    finite: int
    mean: Number | None
    std: Number | None
    min: Number | None
    max: Number | None

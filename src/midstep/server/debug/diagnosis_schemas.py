"""Responses about the last stop: where it came from, what changed, and the error of a failure."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from midstep.server.schema_base import Number, Out

Words = Annotated[str, Field(max_length=2_000)]
Name = Annotated[str, Field(max_length=512)]


class OriginOut(Out):
    """Where the first value that is not finite appeared."""

    kind: Literal["input", "parameter", "module", "operation", "gradient"]
    """`operation`: code of a `forward` between two modules, or the loss."""
    name: Name
    """Name of the module or parameter; `loss` for the loss; empty for the model itself."""


class BadInputOut(Out):
    """The values of one sample that are not finite."""

    position: int
    """Position of the sample in the step, counted from 0."""
    sample: int | None
    """Its id; null if the loader knows none."""
    field: Name
    """Path in the batch, such as `0` or `image`."""
    bad: int
    of: int
    what: Words
    """`all NaN`, `NaN and ∞`."""
    where: Words
    """`rows 12 to 15`; empty if it is the whole sample."""
    low: Number | None
    """Smallest and largest of its other values."""
    high: Number | None


class LayerOut(Out):
    """One row: the input, a module, or the loss."""

    name: Name
    role: Literal["input", "module", "loss"]
    status: Literal["source", "first", "carries", "ok"]
    """`first`: the first bad output. `carries`: it received it."""
    bad: Number | None
    """Share of the values that are not finite; null if it was not run again."""
    is_broken: bool
    gradient: Number | None
    """Norm of the gradient, where it still exists."""
    weight: Number | None
    """Norm of its own weights after the step."""
    weight_before: Number | None
    """The same in the snapshot that was used."""


class ChangeOut(Out):
    """One thing that is compared over the last steps."""

    key: Name
    what: Words
    before: Number | None
    after: Number | None
    line: Annotated[list[Number | None], Field(max_length=64)]
    """One number for each of `steps`; null where it is unknown."""
    step: int | None
    """When it changed; null if it did not."""
    reading: Words
    is_cause: bool


class PlaneOut(Out):
    """One channel as a small picture."""

    width: Annotated[int, Field(ge=1, le=64)]
    height: Annotated[int, Field(ge=1, le=64)]
    low: Number
    high: Number
    signed: bool
    """Whether the range is symmetric about zero."""
    channel: int | None
    """Which one; null for the mean of colours."""
    channels: int
    levels: Annotated[str, Field(max_length=6_000, pattern="^[A-Za-z0-9+/]*=*$")]
    """A byte for each cell in base64: 0 is `low`, 254 is `high`, 255 is not finite."""


class PicturesOut(Out):
    """The first sample at fault, and its row of the first bad output."""

    input: PlaneOut | None
    output: PlaneOut | None
    position: int
    """Position of the sample in the step."""
    output_of: Name | None
    """The module that returned the output."""


class DiagnosisOut(Out):
    """Where a stop came from, found after it on copies."""

    step: int
    """Finished steps at the stop; for an error the step that raised."""
    timeline: int
    title: Words
    """What was noticed: `Loss is NaN.`; may be empty."""
    cause: Words | None
    """Where that came from, in one line; null if nothing was found."""
    origin: OriginOut | None
    """null if nothing was NaN or infinite, or its origin is unknown."""
    samples: Annotated[list[int], Field(max_length=128)]
    """Ids of the samples at fault, or their positions if there are no ids."""
    has_ids: bool
    positions: Annotated[list[int], Field(max_length=128)]
    broken_samples: int
    """How many samples are at fault."""
    batch_size: int
    """Samples of the step; 0 if unknown."""
    inputs: Annotated[list[BadInputOut], Field(max_length=64)]
    layers: Annotated[list[LayerOut], Field(max_length=256)]
    """In the order in which they ran; empty if the stop has nothing to do with them."""
    weights_step: int | None
    """The step of the weights with which the modules were run again; null if they were not."""
    weights_exact: bool
    """Whether the step was made with exactly these weights."""
    broken_weights: int
    """Weights that are not finite after the step."""
    weights: int
    """Weights in all; 0 if they were not read."""
    changes: Annotated[list[ChangeOut], Field(max_length=32)]
    """The cause first, then by step, then what did not change."""
    steps: Annotated[list[int], Field(max_length=64)]
    """The steps that `line` of each change has numbers for."""
    pictures: PicturesOut | None
    notes: Annotated[list[Words], Field(max_length=32)]
    """What must be known to read this: other weights, what could not be run."""
    took_s: Number


class FailureOut(Out):
    """The error that ended the run."""

    error: str
    traceback: str | None
    """null for a view-only link: its source lines and messages may contain any value."""
    step: int | None


class StopOut(Out):
    """The last stop of a run by a breakpoint, a rule or an error."""

    diagnosis: DiagnosisOut | None
    """null before the first stop, and where none was recorded."""
    failure: FailureOut | None

"""Responses of influence: which sequences of an update moved which answers."""

from __future__ import annotations

from typing import Literal

from midstep.server.schema_base import Number, Out


class InfluenceSummary(Out):
    """One stored result in the list."""

    id: str
    name: str
    state: Literal["finished", "unfinished", "damaged"]
    problem: str | None
    """Why it cannot be shown and what to do; null if it can."""
    made_at: float
    """Seconds since 1970."""
    step: int | None
    """Optimizer step at which it was computed."""
    preconditioner: str | None
    requests: list[str]
    update_sequences: int | None
    evaluated_sequences: int | None


class InfluenceListOut(Out):
    """Stored results, newest first."""

    results: list[InfluenceSummary]
    total: int


class InfluenceDelta(Out):
    """Predicted change of a log-probability in nats, and its terms."""

    total: Number
    kernel: Number | None = None
    """The part of this batch."""
    momentum: Number | None = None
    """The part of earlier batches, through the momentum."""
    decay: Number | None = None


class InfluenceContributor(Out):
    """A sequence of the update that moved an evaluated sequence."""

    sequence_id: str
    contribution: Number
    """The contribution in nats, with its sign."""
    kernel: Number
    cosine: Number
    advantage: Number | None


class InfluenceSequence(Out):
    """A prompt and its response."""

    sequence_id: str
    global_prompt_id: str | None
    prompt: str
    response: str
    reward: Number | None
    logprob: Number
    entropy: Number | None
    norm: Number | None
    """sqrt(g · D · g)."""
    delta: InfluenceDelta


class InfluenceUpdateSequence(InfluenceSequence):
    """A sequence that was trained on."""

    advantage: Number | None
    normaliser: Number | None
    """Weight = advantage × normaliser."""
    weight: Number


class InfluenceEvaluatedSequence(InfluenceSequence):
    """A sequence whose log-probability the update moved."""

    contributors: list[InfluenceContributor]
    """The sequences that moved it most, largest first; the kernel has all."""


class InfluenceStep(Out):
    """Numbers of the step that are equal for all sequences: Δ = lr · rate · clip_factor · Σ K w."""

    lr: Number
    rate: Number
    clip_factor: Number
    gradient_norm: Number


class InfluenceComparison(Out):
    """Predicted and actual changes; lists in the order of the ids."""

    relative_error: Number
    correlation: Number
    predicted: list[Number]
    actual: list[Number]


class InfluenceRate(InfluenceComparison):
    """Prediction and true step at one learning rate."""

    lr: Number


class InfluenceAfter(InfluenceComparison):
    """Prediction and what the training itself did."""

    checkpoint: str


class InfluenceValidation(Out):
    """How exact the prediction was."""

    sequence_ids: list[str]
    slope: Number | None
    """Slope of log error over log learning rate; 1 if exact to first order."""
    rates: list[InfluenceRate]
    after: InfluenceAfter | None


class InfluenceRequestSummary(Out):
    """A batch that was evaluated."""

    index: int
    name: str
    kind: str
    sequences: int


class InfluenceOut(Out):
    """One stored result: the update and its requests."""

    id: str
    name: str
    made_at: float
    optimizer_step: int | None
    preconditioner: str
    checkpoint: str
    """Last part of the path of the checkpoint."""
    scheme: str | None
    """How advantages became weights."""
    algorithm: str
    """The algorithm that the planner chose, with its reason."""
    step: InfluenceStep
    coverage: dict[str, Number]
    """Share of each parameter group in the trace of K(U,U); groups without one are left out."""
    update: list[InfluenceUpdateSequence]
    requests: list[InfluenceRequestSummary]
    validation: InfluenceValidation | None


class InfluenceRequestOut(Out):
    """The result of one request; `index` is null for the update itself."""

    result: str
    index: int | None
    name: str
    kind: str
    sequences: list[InfluenceEvaluatedSequence]
    has_kernel: bool
    """Whether K of all pairs was stored; what-if needs it."""


class InfluenceKernelOut(Out):
    """K of all pairs: rows are evaluated sequences, columns those of the update."""

    rows: list[str]
    columns: list[str]
    kernel: list[list[Number]]


class InfluenceWhatIfOut(Out):
    """The change under other advantages, without a model pass."""

    advantages: dict[str, Number]
    """The advantages of the request."""
    sequence_ids: list[str]
    delta: list[InfluenceDelta]
    was: list[InfluenceDelta]
    exact: bool
    """Whether the preconditioner does not depend on the advantages."""
    note: str
    """What stays fixed in this computation."""

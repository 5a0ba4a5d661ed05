"""Wire types of influence: which sequences of an update moved which answers."""

from __future__ import annotations

from typing import Literal

from midstep.server.schema_base import Number, Out


class InfluenceSummary(Out):
    """One stored result in the list."""

    id: str
    name: str
    state: Literal["finished", "unfinished", "damaged"]
    problem: str | None
    """Why it cannot be shown, and what to do."""
    made_at: float
    """Seconds since 1970."""
    step: int | None
    """Optimizer step it was computed at."""
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
    """What this batch does."""
    momentum: Number | None = None
    """What earlier batches still do."""
    decay: Number | None = None


class InfluenceContributor(Out):
    """A sequence of the update that moved an evaluated one."""

    sequence_id: str
    contribution: Number
    """In nats, signed."""
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
    """Those that moved it most, largest first; the kernel has all."""


class InfluenceStep(Out):
    """The numbers of the step that all sequences share: Δ = lr · rate · clip_factor · Σ K w."""

    lr: Number
    rate: Number
    clip_factor: Number
    gradient_norm: Number


class InfluenceRate(Out):
    """The prediction beside a true step at one learning rate; lists in the order of the ids."""

    lr: Number
    relative_error: Number
    correlation: Number
    predicted: list[Number]
    actual: list[Number]


class InfluenceAfter(Out):
    """The prediction beside what training itself did."""

    checkpoint: str
    relative_error: Number
    correlation: Number
    predicted: list[Number]
    actual: list[Number]


class InfluenceValidation(Out):
    """How right the prediction was."""

    sequence_ids: list[str]
    slope: Number | None
    """Of log error over log learning rate; 1 when exact to first order."""
    rates: list[InfluenceRate]
    after: InfluenceAfter | None


class InfluenceRequestSummary(Out):
    """A batch that was evaluated."""

    index: int
    name: str
    kind: str
    sequences: int


class InfluenceOut(Out):
    """One stored result: the update, and what was asked about it."""

    id: str
    name: str
    made_at: float
    optimizer_step: int | None
    preconditioner: str
    checkpoint: str
    """The last part of its path."""
    scheme: str | None
    """How advantages became weights."""
    algorithm: str
    """What the planner said."""
    step: InfluenceStep
    coverage: dict[str, Number]
    """Share of the trace of K(U,U) by group of parameters; groups without a share are left out."""
    update: list[InfluenceUpdateSequence]
    requests: list[InfluenceRequestSummary]
    validation: InfluenceValidation | None


class InfluenceRequestOut(Out):
    """What was found for one batch; `index` is None for the update itself."""

    result: str
    index: int | None
    name: str
    kind: str
    sequences: list[InfluenceEvaluatedSequence]
    has_kernel: bool
    """Whether K of all pairs was kept; without it there is no what-if."""


class InfluenceKernelOut(Out):
    """K of all pairs: rows are evaluated sequences, columns those of the update."""

    rows: list[str]
    columns: list[str]
    kernel: list[list[Number]]


class InfluenceWhatIfOut(Out):
    """The change under other advantages, without a model pass."""

    advantages: dict[str, Number]
    """Those that were asked for."""
    sequence_ids: list[str]
    delta: list[InfluenceDelta]
    was: list[InfluenceDelta]
    exact: bool
    """Whether other advantages leave the preconditioner as it is."""
    note: str
    """What was held fixed."""

"""Wire types of embedding datasets: what is stored, its clusters, pairs, curriculum, audit."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from midstep.server.schema_base import Number, Out

SplitName = Literal["train", "val", "test"]


class DatasetCounts(Out):
    """Lengths of the tables, as config.json names them."""

    pairs: int
    questions: int
    sources: int
    keywords: int
    clusters: int
    negatives: int
    """Of each pair."""
    dimension: int


class DatasetSummary(Out):
    """One dataset in the list."""

    id: str
    name: str
    state: Literal["ready", "damaged"]
    problem: str | None
    """Why it cannot be shown, and what to do."""
    made_at: float
    """Seconds since 1970."""
    size_bytes: int
    form: str | None
    counts: DatasetCounts | None
    schedule: str | None
    """Name of its curriculum."""


class DatasetListOut(Out):
    """Datasets in the folders that were named, newest first."""

    datasets: list[DatasetSummary]
    total: int
    roots: int
    """How many folders were named to look in; 0 where none was."""


class ClusterOut(Out):
    """A cluster and what lies in it."""

    cluster: int
    pairs: dict[SplitName, int]
    mean_distance: Number | None
    """Of questions to the centroid, 1 − cosine; None for an empty cluster."""


class DatasetOut(Out):
    """One dataset as a whole."""

    id: str
    name: str
    made_at: float
    size_bytes: int
    form: str
    counts: DatasetCounts
    splits: dict[SplitName, int]
    """Pairs of each; a pair in none of them is not counted."""
    steering_definition: str
    steering_probabilities: dict[str, Number]
    curriculum: dict[str, Any]
    seed: int
    encoder: str | None
    """As the builder noted it."""
    has_texts: bool
    has_audit: bool
    has_ledger: bool
    tiers: dict[str, int]
    """Negatives of each tier, in `tiers_of` pairs."""
    tiers_of: int
    clusters: list[ClusterOut]


class MapPoints(Out):
    """Points by columns."""

    x: list[Number]
    y: list[Number]


class MapQuestions(MapPoints):
    """Sampled questions, each with a pair it belongs to."""

    pair: list[int]
    question: list[int]
    cluster: list[int]
    split: list[SplitName | None]


class DatasetMapOut(Out):
    """Centroids and a sample of questions on the plane in which questions differ most."""

    shares: list[Number]
    """Of the variance of questions, along each axis."""
    centroids: MapPoints
    """By cluster."""
    questions: MapQuestions
    of: int
    """Pairs that the sample was drawn from."""


class PairLine(Out):
    """A pair in the list."""

    pair: int
    split: SplitName | None
    cluster: int
    relevance: Number
    distance: Number
    question_id: int
    question: str | None
    """Its text, where the builder kept it."""


class PairListOut(Out):
    """Pairs of a split or a cluster, by id."""

    pairs: list[PairLine]
    offset: int
    total: int


class RowOut(Out):
    """A row of a table of embeddings, and how near it is to the question."""

    id: int
    text: str | None
    similarity: Number
    """Cosine to the question."""


class NegativeOut(RowOut):
    """A source that does not answer the question."""

    tier: int
    """1 in the cluster, 2 in adjacent ones, 3 similar but outside, 4 random from far."""
    place: int
    """In the stored row."""
    of_positive: Number | None
    """Its similarity as a share of the positive's; None where that is not above zero."""


class SteeringOut(Out):
    """One stored steering vector."""

    variant: str
    length: Number
    to_question: Number
    """Cosine."""
    to_source: Number
    to_centroid: Number


class PairOut(Out):
    """A pair with all that a batch is made of."""

    pair: int
    split: SplitName | None
    cluster: int
    relevance: Number
    distance: Number
    question_id: int
    question: str | None
    source: RowOut
    keywords: list[RowOut]
    negatives: list[NegativeOut]
    steering: list[SteeringOut]
    variants: list[int]
    """The steering variant it gets in epochs 0, 1, … under the dataset's own curriculum."""


class ScheduleOut(Out):
    """Shares of the four variants over epochs."""

    name: str
    own: bool
    """Whether it is the one the dataset names."""
    settings: dict[str, Any]
    shares: list[list[Number]]
    """An epoch a row: zero, centroid, keyword, residual; over the training pairs."""
    largest_distance: list[Number] | None
    """The gate of each epoch, where the schedule has one."""
    beyond: list[Number] | None
    """Share of the training pairs beyond it."""


class CurriculumOut(Out):
    """All schedules, the dataset's own first."""

    variants: list[str]
    epochs: int
    schedules: list[ScheduleOut]


class AuditExample(Out):
    """Two rows of two splits that are the same, or nearly."""

    split_a: str
    row_a: int
    split_b: str
    row_b: int
    kind: str | None = None
    """What the rows are: `question` or `source`."""
    text: str | None = None
    similarity: Number | None = None


class AuditLevel(Out):
    """What one level of the audit found."""

    leaks: int
    threshold: Number | None = None
    examples: list[AuditExample] = Field(max_length=1000)


class AuditOut(Out):
    """The builder's report on leaks between splits."""

    clean: bool
    levels: dict[str, AuditLevel]


class ShortageOut(Out):
    """A tier of a pair that ran short."""

    pair: int
    tier: int
    wanted: int
    found: int
    filled_from: dict[str, int]


class LedgerOut(Out):
    """What was asked for in each tier, what was made, and where it ran short."""

    quotas: dict[str, int]
    made: dict[str, int]
    short_pairs: int
    dropped: int
    """Pairs left out because not even all tiers together had enough."""
    shortages: list[ShortageOut]
    """Those from `offset` on."""
    kept: int
    """Shortages the ledger holds; it stops at some number."""
    offset: int


class DatasetAuditOut(Out):
    """Audit and ledger; None where the dataset has none, or it cannot be read."""

    audit: AuditOut | None
    audit_problem: str | None
    ledger: LedgerOut | None
    ledger_problem: str | None

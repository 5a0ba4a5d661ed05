"""Responses of embedding datasets: list, clusters, pairs, curriculum, audit."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from midstep.server.schema_base import Number, Out

SplitName = Literal["train", "val", "test"]


class DatasetCounts(Out):
    """Lengths of the tables, from config.json."""

    pairs: int
    questions: int
    sources: int
    keywords: int
    clusters: int
    negatives: int
    """Negatives of each pair."""
    dimension: int


class DatasetName(Out):
    """Fields of a dataset in the list and on its page."""

    id: str
    name: str
    made_at: float
    """Seconds since 1970."""
    size_bytes: int


class DatasetSummary(DatasetName):
    """One dataset in the list."""

    state: Literal["ready", "damaged"]
    problem: str | None
    """Why it cannot be shown and what to do; null if it can."""
    form: str | None
    counts: DatasetCounts | None
    schedule: str | None
    """Name of its curriculum."""


class DatasetListOut(Out):
    """Datasets in the folders of `--data`, newest first."""

    datasets: list[DatasetSummary]
    total: int
    roots: int
    """Number of folders given with `--data`."""


class ClusterOut(Out):
    """A cluster and its pairs."""

    cluster: int
    pairs: dict[SplitName, int]
    mean_distance: Number | None
    """Mean of 1 − cosine of the questions to the centroid; null for an empty cluster."""


class DatasetOut(DatasetName):
    """One dataset."""

    form: str
    counts: DatasetCounts
    splits: dict[SplitName, int]
    """Pairs of each split; a pair may be in none."""
    steering_definition: str
    steering_probabilities: dict[str, Number]
    curriculum: dict[str, Any]
    seed: int
    encoder: str | None
    """Name of the encoder, from the build record."""
    has_texts: bool
    has_audit: bool
    has_ledger: bool
    tiers: dict[str, int]
    """Negatives of each tier, counted in `tiers_of` pairs."""
    tiers_of: int
    clusters: list[ClusterOut]


class MapPoints(Out):
    """Points as columns."""

    x: list[Number]
    y: list[Number]


class MapQuestions(MapPoints):
    """Sampled questions, each with one of its pairs."""

    pair: list[int]
    question: list[int]
    cluster: list[int]
    split: list[SplitName | None]


class DatasetMapOut(Out):
    """Centroids and a sample of questions, on the plane of largest variance of the questions."""

    shares: list[Number]
    """Share of the variance of the questions along each axis."""
    centroids: MapPoints
    """One centroid for each cluster, in the order of the clusters."""
    questions: MapQuestions
    of: int
    """Number of pairs from which the sample was drawn."""


class PairLine(Out):
    """A pair in the list."""

    pair: int
    split: SplitName | None
    cluster: int
    relevance: Number
    distance: Number
    question_id: int
    question: str | None
    """Its text, if the builder stored it."""


class PairListOut(Out):
    """Pairs of a split or a cluster, sorted by id."""

    pairs: list[PairLine]
    offset: int
    total: int


class RowOut(Out):
    """A row of a table of embeddings, and its similarity to the question."""

    id: int
    text: str | None
    similarity: Number
    """Cosine with the question."""


class NegativeOut(RowOut):
    """A source that does not answer the question."""

    tier: int
    """1 same cluster, 2 adjacent clusters, 3 similar in other clusters, 4 random from far."""
    place: int
    """Position in the stored row."""
    of_positive: Number | None
    """Its similarity as a share of that of the positive; null if that is not above zero."""


class SteeringOut(Out):
    """One stored steering vector."""

    variant: str
    length: Number
    to_question: Number
    """Cosine."""
    to_source: Number
    to_centroid: Number


class PairOut(PairLine):
    """A pair with everything that a batch takes from it."""

    source: RowOut
    keywords: list[RowOut]
    negatives: list[NegativeOut]
    steering: list[SteeringOut]
    variants: list[int]
    """Its steering variant in epochs 0, 1, … under the curriculum of the dataset."""


class ScheduleOut(Out):
    """Shares of the four variants over epochs."""

    name: str
    own: bool
    """Whether it is the schedule of the dataset."""
    settings: dict[str, Any]
    shares: list[list[Number]]
    """One row per epoch: zero, centroid, keyword, residual; over the training pairs."""
    largest_distance: list[Number] | None
    """The gate of each epoch, if the schedule has one."""
    beyond: list[Number] | None
    """Share of the training pairs beyond the gate."""


class CurriculumOut(Out):
    """All schedules, the one of the dataset first."""

    variants: list[str]
    epochs: int
    schedules: list[ScheduleOut]


class AuditExample(Out):
    """Two rows of two splits that are equal or nearly equal."""

    split_a: str
    row_a: int
    split_b: str
    row_b: int
    kind: str | None = None
    """What the rows are: `question` or `source`."""
    text: str | None = None
    similarity: Number | None = None


class AuditLevel(Out):
    """Leaks of one level of the audit."""

    leaks: int
    threshold: Number | None = None
    examples: list[AuditExample] = Field(max_length=1000)


class AuditOut(Out):
    """The builder's report on leaks between splits."""

    clean: bool
    levels: dict[str, AuditLevel]


class ShortageOut(Out):
    """A tier of a pair with too few negatives."""

    pair: int
    tier: int
    wanted: int
    found: int
    filled_from: dict[str, int]


class LedgerOut(Out):
    """Requested and mined negatives of each tier, and the shortages."""

    quotas: dict[str, int]
    made: dict[str, int]
    short_pairs: int
    dropped: int
    """Pairs left out because all tiers together had too few negatives."""
    shortages: list[ShortageOut]
    """Shortages from `offset` on."""
    kept: int
    """Number of shortages in the ledger, which stores only the first ones."""
    offset: int


class DatasetAuditOut(Out):
    """Audit and ledger; null if the dataset has none or it cannot be read."""

    audit: AuditOut | None
    audit_problem: str | None
    ledger: LedgerOut | None
    ledger_problem: str | None

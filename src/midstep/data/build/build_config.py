"""`BuildConfig`: the settings of a build, and how negatives are divided over the tiers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from midstep.core.errors import DatasetError
from midstep.core.field_checks import at_least, cosine_threshold, one_of, shares, within
from midstep.data.steering.curriculum import curriculum_problem
from midstep.data.steering.storage.layout import FORMS, SPLITS, VARIANTS, Form
from midstep.data.text.encoders import Encoder

TIERS = (1, 2, 3, 4)
"""1 in the pair's cluster, 2 in an adjacent one, 3 similar to the question, 4 distant."""
TIER_SHARES = {1: 4, 2: 3, 3: 3, 4: 2}
KeptTogether = Literal["question", "source", "near_duplicate"]
KEPT_TOGETHER: tuple[KeptTogether, ...] = ("question", "source", "near_duplicate")


def quotas_for(n_neg: int) -> dict[int, int]:
    """Divide `n_neg` negatives over the tiers as 4 : 3 : 3 : 2, the largest remainders first.

    >>> quotas_for(12), quotas_for(5)
    ({1: 4, 2: 3, 3: 3, 4: 2}, {1: 2, 2: 1, 3: 1, 4: 1})
    """
    total = sum(TIER_SHARES.values())
    quotas = {tier: n_neg * share // total for tier, share in TIER_SHARES.items()}
    by_remainder = sorted(TIERS, key=lambda tier: (-(n_neg * TIER_SHARES[tier] % total), tier))
    for tier in by_remainder[: n_neg - sum(quotas.values())]:
        quotas[tier] += 1
    return quotas


@dataclass(frozen=True, kw_only=True)
class BuildConfig:
    """The settings of a build. A wrong setting is one `DatasetError` that lists all problems.

    >>> BuildConfig(tables="pairs.csv", out="data/mined", n_neg=6).quotas
    {1: 2, 2: 2, 3: 1, 4: 1}
    """

    tables: Sequence[str | Path] | str | Path
    """CSV, TSV or Parquet files with the same columns; one is enough."""
    out: str | Path
    """The folder of the dataset; must not exist."""
    encoder: Encoder | Callable[[list[str]], Any] | str = "hashing"
    """`hashing`, `hashing:WIDTH`, `sentence:FOLDER`, an `Encoder`, or a function of texts."""
    embeddings: str | Path | None = None
    """Folder with questions.npy and sources.npy, to use in place of an encoder: one row for each
    row of the tables. If there are keywords, also keywords.npy and keywords.txt."""
    question_column: str = "question"
    """Column with the questions."""
    source_column: str = "source"
    """Column with the sources."""
    relevance_column: str | None = "relevance"
    """Column with the relevance, 0 to 1; None counts every row as 1. A row of relevance 0 is not a
    pair, but its source may become a negative."""
    keywords_column: str = "keywords"
    """Column with the keywords. A table may lack a column of this default name."""
    keyword_separator: str = ";"
    """Text between the keywords in one cell; lists in Parquet need none."""
    split_column: str | None = None
    """Column that says train, val or test for each row, to use in place of a computed split."""
    ratios: Mapping[str, float] = field(
        default_factory=lambda: {"train": 0.8, "val": 0.1, "test": 0.1}
    )
    """Shares of the questions in train, val and test."""
    keep_together: KeptTogether = "near_duplicate"
    """What stays in one split: `question` only the rows of one question; `source` also questions
    that share a source; `near_duplicate` also questions with nearly the same text."""
    near_duplicate: float = 0.95
    """Cosine from which two texts count as near duplicates, in the split and in the audit."""
    n_clusters: int | None = None
    """Number of clusters; by default the square root of half the training pairs, 2 to 256."""
    adjacent: int = 3
    """Neighbouring clusters that tier 2 comes from."""
    similar_quantile: float = 0.9
    """Tier 3 begins at this quantile of the cosine between training questions and sources."""
    n_neg: int = 12
    """Negatives of a pair."""
    quotas: Mapping[int, int] = field(default_factory=dict)
    """Negatives of each tier, with the sum `n_neg`; by default divided as 4 : 3 : 3 : 2."""
    margin: float = 0.95
    """A negative scores at most this share of the score of the pair's own source."""
    steering_definition: str = "standard"
    """`standard` or `legacy`."""
    steering_probabilities: Mapping[str, float] = field(
        default_factory=lambda: dict.fromkeys(VARIANTS, 0.25)
    )
    """Probabilities of the variants zero, centroid, keyword, residual."""
    curriculum: Mapping[str, Any] = field(default_factory=lambda: {"name": "linear_zero"})
    """Name and settings of the schedule of variants."""
    seed: int = 0
    """Seed of the split, the clusters and the random negatives; also the seed of the dataset."""
    form: Form = "memmap"
    """Storage form of the dataset."""
    batch_texts: int = 2048
    """Texts encoded together. An interrupted build continues after the last finished batch."""

    def __post_init__(self) -> None:
        given = [self.tables] if isinstance(self.tables, str | Path) else list(self.tables)
        object.__setattr__(self, "tables", tuple(Path(each) for each in given))
        object.__setattr__(self, "out", Path(self.out))
        if not self.quotas:
            object.__setattr__(self, "quotas", quotas_for(max(self.n_neg, 0)))
        DatasetError.raise_if("the build cannot begin", _problems(self))

    @property
    def table_paths(self) -> tuple[Path, ...]:
        """The paths of the tables."""
        return tuple(Path(each) for each in self.tables)  # type: ignore[union-attr]

    @property
    def out_folder(self) -> Path:
        """The folder of the finished dataset."""
        return Path(self.out)

    @property
    def work_folder(self) -> Path:
        """The folder that keeps finished stages until the build is complete."""
        return self.out_folder.with_name(f".{self.out_folder.name}.build")

    def to_json(self) -> dict[str, Any]:
        """Every setting as plain JSON for build.json: paths by their last name, encoder by name."""
        settings = {each.name: getattr(self, each.name) for each in fields(self)}
        settings["tables"] = [path.name for path in self.table_paths]
        settings["out"] = self.out_folder.name
        settings["embeddings"] = None if self.embeddings is None else Path(self.embeddings).name
        if not isinstance(self.encoder, str):
            settings["encoder"] = getattr(self.encoder, "name", None) or getattr(
                self.encoder, "__qualname__", type(self.encoder).__name__
            )
        settings["quotas"] = {str(tier): count for tier, count in self.quotas.items()}
        settings["ratios"] = dict(self.ratios)
        settings["steering_probabilities"] = dict(self.steering_probabilities)
        settings["curriculum"] = dict(self.curriculum)
        return settings


def _problems(config: BuildConfig) -> list[str | None]:
    return [
        None if config.table_paths else "tables is empty; name a CSV or Parquet file",
        shares("ratios", config.ratios, SPLITS),
        shares("steering_probabilities", config.steering_probabilities, VARIANTS),
        _quota_problem(config),
        one_of("keep_together", config.keep_together, KEPT_TOGETHER),
        one_of("steering_definition", config.steering_definition, ("standard", "legacy")),
        one_of("form", config.form, FORMS),
        curriculum_problem("curriculum", config.curriculum),
        at_least("n_neg", config.n_neg, 1),
        at_least("adjacent", config.adjacent, 0),
        at_least("batch_texts", config.batch_texts, 1),
        None if config.n_clusters is None else at_least("n_clusters", config.n_clusters, 1),
        cosine_threshold("near_duplicate", config.near_duplicate),
        within("similar_quantile", config.similar_quantile, 0, 1),
        within("margin", config.margin, 0, 1),
    ]


def _quota_problem(config: BuildConfig) -> str | None:
    quotas = config.quotas
    if set(quotas) != set(TIERS):
        return f"quotas must have the tiers 1, 2, 3, 4, got {', '.join(map(str, quotas))}"
    if any(not isinstance(each, int) or each < 0 for each in quotas.values()):
        return f"quotas must be whole numbers of at least 0, got {dict(quotas)}"
    if sum(quotas.values()) != config.n_neg:
        return f"quotas must sum to n_neg = {config.n_neg}, got {sum(quotas.values())}"
    return None

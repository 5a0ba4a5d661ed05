"""What a build is told: the table, the encoder, how to split, cluster and mine."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from midstep.core.errors import ConfigError, DatasetError
from midstep.data.build.encoders import Encoder
from midstep.data.embedding.curriculum import curriculum_from
from midstep.data.embedding.layout import FORMS, SPLITS, VARIANTS, Form

__all__ = ["TIERS", "BuildConfig", "KeptTogether", "quotas_for"]

TIERS = (1, 2, 3, 4)
"""1 in the pair's cluster, 2 in an adjacent one, 3 similar to the question, 4 distant."""
TIER_SHARES = {1: 4, 2: 3, 3: 3, 4: 2}
KeptTogether = Literal["question", "source", "near_duplicate"]
KEPT_TOGETHER: tuple[KeptTogether, ...] = ("question", "source", "near_duplicate")


def quotas_for(n_neg: int) -> dict[int, int]:
    """Negatives of each tier in the proportion 4 : 3 : 3 : 2, the largest remainders first.

    >>> quotas_for(12), quotas_for(5)
    ({1: 4, 2: 3, 3: 3, 4: 2}, {1: 2, 2: 1, 3: 1, 4: 1})
    """
    whole = sum(TIER_SHARES.values())
    made = {tier: n_neg * share // whole for tier, share in TIER_SHARES.items()}
    by_rest = sorted(TIERS, key=lambda tier: (-(n_neg * TIER_SHARES[tier] % whole), tier))
    for tier in by_rest[: n_neg - sum(made.values())]:
        made[tier] += 1
    return made


@dataclass(frozen=True, kw_only=True)
class BuildConfig:
    """A build of a steering dataset.

    >>> BuildConfig(tables="pairs.csv", out="data/mine", n_neg=6).quotas
    {1: 2, 2: 2, 3: 1, 4: 1}
    """

    tables: Sequence[str | Path] | str | Path
    """CSV or Parquet files with the same columns; one is enough."""
    out: str | Path
    """The folder of the dataset; must not exist."""
    encoder: Encoder | Callable[[list[str]], Any] | str = "hashing"
    """`hashing`, `hashing:WIDTH`, `sentence:FOLDER`, an `Encoder`, or a function of texts."""
    embeddings: str | Path | None = None
    """Folder with questions.npy and sources.npy, a row for each row of the tables, in place of an
    encoder; and keywords.npy beside keywords.txt where there are keywords."""
    question_column: str = "question"
    """Column with the questions."""
    source_column: str = "source"
    """Column with the sources."""
    relevance_column: str | None = "relevance"
    """Column with the relevance, 0 to 1; None counts every row 1. A row of relevance 0 is no pair,
    but its source may become a negative."""
    keywords_column: str = "keywords"
    """Column with the keywords; under this name it may be missing from a table."""
    keyword_separator: str = ";"
    """What stands between keywords in one cell; lists in Parquet need none."""
    split_column: str | None = None
    """Column that says train, val or test, in place of a split of our own."""
    ratios: Mapping[str, float] = field(
        default_factory=lambda: {"train": 0.8, "val": 0.1, "test": 0.1}
    )
    """Shares of the questions."""
    keep_together: KeptTogether = "near_duplicate"
    """What must not be split: one question only; questions that share a source, too; or also those
    with nearly the same text."""
    near_duplicate: float = 0.95
    """Cosine from which two texts count as near duplicates, here and in the audit."""
    n_clusters: int | None = None
    """Clusters; the square root of half the training pairs when left out, 2 to 256."""
    adjacent: int = 3
    """Neighbouring clusters that tier 2 comes from."""
    similar_quantile: float = 0.9
    """Tier 3 begins at this quantile of the cosine between training questions and sources."""
    n_neg: int = 12
    """Negatives of a pair."""
    quotas: Mapping[int, int] = field(default_factory=dict)
    """Negatives of each tier, of sum `n_neg`; in the proportion 4 : 3 : 3 : 2 when left out."""
    margin: float = 0.95
    """A negative scores at most this share of what the pair's own source does."""
    steering_definition: str = "standard"
    """`standard` or `legacy`."""
    steering_probabilities: Mapping[str, float] = field(
        default_factory=lambda: dict.fromkeys(VARIANTS, 0.25)
    )
    """Of zero, centroid, keyword, residual."""
    curriculum: Mapping[str, Any] = field(default_factory=lambda: {"name": "linear_zero"})
    """Schedule of the variants."""
    seed: int = 0
    """Of the split, the clusters and the random negatives; and the dataset's own."""
    form: Form = "memmap"
    """Physical form of the dataset."""
    batch_texts: int = 2048
    """Texts encoded between two places from which an interrupted build goes on."""

    def __post_init__(self) -> None:
        given = [self.tables] if isinstance(self.tables, str | Path) else list(self.tables)
        object.__setattr__(self, "tables", tuple(Path(each) for each in given))
        object.__setattr__(self, "out", Path(self.out))
        if not self.quotas:
            object.__setattr__(self, "quotas", quotas_for(max(self.n_neg, 0)))
        problems = [told for told in _problems(self) if told]
        if problems:
            raise DatasetError("the build cannot begin", problems)

    @property
    def table_paths(self) -> tuple[Path, ...]:
        """The tables."""
        return tuple(Path(each) for each in self.tables)  # type: ignore[union-attr]

    @property
    def out_folder(self) -> Path:
        """Where the dataset will stand."""
        return Path(self.out)

    @property
    def work_folder(self) -> Path:
        """Where finished stages wait for the build to go on."""
        return self.out_folder.with_name(f".{self.out_folder.name}.build")

    def described(self) -> dict[str, Any]:
        """Every setting as plain JSON; the encoder by its name."""
        told = {each.name: getattr(self, each.name) for each in fields(self)}
        told["tables"] = [path.name for path in self.table_paths]
        told["out"] = self.out_folder.name
        told["embeddings"] = None if self.embeddings is None else Path(self.embeddings).name
        if not isinstance(self.encoder, str):
            told["encoder"] = getattr(self.encoder, "name", None) or getattr(
                self.encoder, "__qualname__", type(self.encoder).__name__
            )
        told["quotas"] = {str(tier): count for tier, count in self.quotas.items()}
        told["ratios"] = dict(self.ratios)
        told["steering_probabilities"] = dict(self.steering_probabilities)
        told["curriculum"] = dict(self.curriculum)
        return told


def _problems(config: BuildConfig) -> list[str | None]:
    return [
        None if config.table_paths else "tables is empty; name a CSV or Parquet file",
        _shares("ratios", config.ratios, SPLITS),
        _shares("steering_probabilities", config.steering_probabilities, VARIANTS),
        _quotas(config),
        _one_of("keep_together", config.keep_together, KEPT_TOGETHER),
        _one_of("steering_definition", config.steering_definition, ("standard", "legacy")),
        _one_of("form", config.form, FORMS),
        _curriculum(config.curriculum),
        _at_least("n_neg", config.n_neg, 1),
        _at_least("adjacent", config.adjacent, 0),
        _at_least("batch_texts", config.batch_texts, 1),
        None if config.n_clusters is None else _at_least("n_clusters", config.n_clusters, 1),
        _threshold("near_duplicate", config.near_duplicate),
        _within("similar_quantile", config.similar_quantile, 0, 1),
        _within("margin", config.margin, 0, 1),
    ]


def _shares(name: str, given: Mapping[str, float], keys: tuple[str, ...]) -> str | None:
    if set(given) != set(keys):
        return f"{name} must have the keys {', '.join(keys)}, got {', '.join(map(str, given))}"
    numbers = list(given.values())
    if any(not _is_number(each) or each < 0 for each in numbers):
        return f"{name} must be numbers from 0 to 1, got {dict(given)}"
    if abs(math.fsum(numbers) - 1) > 1e-6:
        return f"{name} must sum to 1, got {math.fsum(numbers):g}"
    return None


def _quotas(config: BuildConfig) -> str | None:
    quotas = config.quotas
    if set(quotas) != set(TIERS):
        return f"quotas must have the tiers 1, 2, 3, 4, got {', '.join(map(str, quotas))}"
    if any(not isinstance(each, int) or each < 0 for each in quotas.values()):
        return f"quotas must be whole numbers of at least 0, got {dict(quotas)}"
    if sum(quotas.values()) != config.n_neg:
        return f"quotas must sum to n_neg = {config.n_neg}, got {sum(quotas.values())}"
    return None


def _curriculum(given: Mapping[str, Any]) -> str | None:
    try:
        curriculum_from(given)
    except ConfigError as error:
        return f"curriculum: {error}"
    return None


def _one_of(name: str, value: Any, choices: Sequence[str]) -> str | None:
    return None if value in choices else f"{name} must be {' or '.join(choices)}, got {value!r}"


def _at_least(name: str, value: Any, least: int) -> str | None:
    if isinstance(value, int) and not isinstance(value, bool) and value >= least:
        return None
    return f"{name} must be a whole number of at least {least}, got {value!r}"


def _within(name: str, value: Any, low: float, high: float) -> str | None:
    if _is_number(value) and low <= value <= high:
        return None
    return f"{name} must be a number from {low} to {high}, got {value!r}"


def _threshold(name: str, value: Any) -> str | None:
    if _is_number(value) and 0 < value <= 1:
        return None
    return f"{name} must be a cosine above 0 and up to 1, got {value!r}"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)

"""config.json of an embedding dataset: read, checked as a whole, written."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from midstep.core import strict_json
from midstep.core.errors import ConfigError, DatasetError, FormatError
from midstep.data.embedding.curriculum import curriculum_from
from midstep.data.embedding.layout import CONFIG_NAME, FORMS, SPLITS, VARIANTS, Form

__all__ = ["FORMAT_VERSION", "DatasetConfig", "read_config"]

FORMAT_VERSION = 1
DEFINITIONS = ("standard", "legacy", "stored")
COUNTS = (
    "embedding_dim",
    "n_neg",
    "n_pairs",
    "n_questions",
    "n_sources",
    "n_keywords",
    "n_clusters",
)
REQUIRED = (*COUNTS, "split_ratios", "steering_probabilities", "storage_format", "random_seed")
MAY_BE_ZERO = ("n_keywords",)
_SUM_TOLERANCE = 1e-6


@dataclass(frozen=True, kw_only=True)
class DatasetConfig:
    """What config.json says. Anything wrong is one `DatasetError` that lists all problems.

    >>> DatasetConfig(
    ...     embedding_dim=8, n_neg=-1, n_pairs=4, n_questions=4, n_sources=9, n_keywords=0,
    ...     n_clusters=2, steering_probabilities={"zero": 1.0}, random_seed=0,
    ... )
    Traceback (most recent call last):
    midstep.core.errors.DatasetError: config.json is wrong:
      n_neg must be a whole number of at least 1, got -1
      steering_probabilities must have the keys zero, centroid, keyword, residual, got zero
    """

    embedding_dim: int
    """Width D of every embedding."""
    n_neg: int
    """Hard negatives of a pair."""
    n_pairs: int
    """Pairs of a question and a source that answers it."""
    n_questions: int
    """Rows of question_embs."""
    n_sources: int
    """Rows of source_embs."""
    n_keywords: int
    """Rows of keyword_embs; may be 0."""
    n_clusters: int
    """Rows of centroid_embs."""
    steering_probabilities: Mapping[str, float]
    """Of zero, centroid, keyword, residual; their sum is 1."""
    random_seed: int
    """Seed of variants, of chosen negatives and, unless another is given, of the order."""
    split_ratios: Mapping[str, float] = field(
        default_factory=lambda: {"train": 0.8, "val": 0.1, "test": 0.1}
    )
    """Shares of train, val, test; their sum is 1."""
    storage_format: Form = "memmap"
    """The physical form."""
    format_version: int = FORMAT_VERSION
    """Of this layout."""
    curriculum: Mapping[str, Any] = field(default_factory=lambda: {"name": "linear_zero"})
    """Name and settings of the schedule of variants."""
    steering_definition: str = "stored"
    """How the steering tables were made: `standard`, `legacy`, or `stored` when nobody knows."""
    files: Mapping[str, str] = field(default_factory=dict)
    """SHA-256 of every file."""
    tables: Mapping[str, str] = field(default_factory=dict)
    """Digest of every table's content, the same in all three forms."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Further keys of config.json, kept as they are."""

    def __post_init__(self) -> None:
        problems = [
            told for name, check in _CHECKS.items() for told in check(name, getattr(self, name))
        ]
        if problems:
            raise DatasetError(f"{CONFIG_NAME} is wrong", problems)

    @property
    def counts(self) -> dict[str, int]:
        """The counts that shapes are made of."""
        return {name: getattr(self, name) for name in COUNTS}

    @classmethod
    def from_json(cls, value: Any) -> DatasetConfig:
        """From the content of config.json."""
        if not isinstance(value, Mapping):
            raise DatasetError(f"{CONFIG_NAME} must hold an object, got {type(value).__name__}")
        known = {each.name for each in fields(cls)} - {"extra"}
        given = {name: value[name] for name in known & value.keys()}
        if isinstance(given.get("split_ratios"), list):  # older files have no names here
            given["split_ratios"] = dict(zip(SPLITS, given["split_ratios"], strict=False))
        missing = [f"{name} is missing" for name in REQUIRED if name not in given]
        if missing:
            wrong = [
                told
                for name in given
                if name in _CHECKS
                for told in _CHECKS[name](name, given[name])
            ]
            raise DatasetError(f"{CONFIG_NAME} is wrong", [*missing, *wrong])
        return cls(**given, extra={name: value[name] for name in value.keys() - known})

    def to_json(self) -> dict[str, Any]:
        """As the content of config.json."""
        own = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "extra"}
        made: dict[str, Any] = strict_json.plain({**own, **self.extra})
        return made


def read_config(folder: str | Path) -> DatasetConfig:
    """The config of a dataset folder, or one error about what is wrong with it."""
    path = Path(folder) / CONFIG_NAME
    try:
        return DatasetConfig.from_json(strict_json.loads(path.read_bytes()))
    except (FileNotFoundError, NotADirectoryError):
        raise DatasetError(f"{path} is missing; {_what_else(Path(folder))}") from None
    except OSError as error:
        raise DatasetError(f"{path} cannot be read: {error.strerror}") from error
    except FormatError as error:
        raise DatasetError(f"{path} is {error}") from None
    except DatasetError as error:
        raise DatasetError(f"{path} is wrong", error.problems or [str(error)]) from None


def _what_else(folder: Path) -> str:
    """What a folder without config.json may be, and what to do about it."""
    if folder.is_file():
        return f"{folder} is a file, a dataset is a folder"
    if (folder / "dataset.db").is_file():
        return f"{folder} is a cluster-labelled dataset: open it with ClusterLabeledDataset"
    if (folder / "build.json").is_file():
        return f"{folder} is not a steering dataset; midstep dataset info {folder} tells what it is"
    return f"is {folder} the folder of a dataset?"


Check = Callable[[str, Any], list[str]]


def _whole(least: int) -> Check:
    def check(name: str, value: Any) -> list[str]:
        if isinstance(value, int) and not isinstance(value, bool) and value >= least:
            return []
        return [f"{name} must be a whole number of at least {least}, got {value!r}"]

    return check


def _seed(name: str, value: Any) -> list[str]:
    if isinstance(value, int) and not isinstance(value, bool):
        return []
    return [f"{name} must be a whole number, got {value!r}"]


def _shares(keys: tuple[str, ...]) -> Check:
    def check(name: str, value: Any) -> list[str]:
        if not isinstance(value, Mapping) or set(value) != set(keys):
            given = ", ".join(map(str, value)) if isinstance(value, Mapping) else repr(value)
            return [f"{name} must have the keys {', '.join(keys)}, got {given}"]
        for key, share in value.items():
            if not _is_share(share):
                return [f"{name}.{key} must be a number from 0 to 1, got {share!r}"]
        total = math.fsum(value.values())
        if abs(total - 1) > _SUM_TOLERANCE:
            return [f"{name} must sum to 1, got {total:g}"]
        return []

    return check


def _is_share(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1


def _one_of(choices: tuple[Any, ...]) -> Check:
    def check(name: str, value: Any) -> list[str]:
        if isinstance(value, int | str) and value in choices:
            return []
        return [f"{name} must be one of {', '.join(map(str, choices))}, got {value!r}"]

    return check


def _schedule(name: str, value: Any) -> list[str]:
    try:
        curriculum_from(value)
    except ConfigError as error:
        return [f"{name}: {error}"]
    return []


def _digests(name: str, value: Any) -> list[str]:
    if not isinstance(value, Mapping):
        return [f"{name} must map names to digests, got {value!r}"]
    return [
        f"{name}.{key} must be a SHA-256 in hexadecimal, got {digest!r}"
        for key, digest in value.items()
        if not (isinstance(digest, str) and len(digest) == 64)
    ]


_CHECKS: dict[str, Check] = {
    **{name: _whole(0 if name in MAY_BE_ZERO else 1) for name in COUNTS},
    "split_ratios": _shares(SPLITS),
    "steering_probabilities": _shares(VARIANTS),
    "storage_format": _one_of(FORMS),
    "random_seed": _seed,
    "format_version": _one_of((FORMAT_VERSION,)),
    "curriculum": _schedule,
    "steering_definition": _one_of(DEFINITIONS),
    "files": _digests,
    "tables": _digests,
}

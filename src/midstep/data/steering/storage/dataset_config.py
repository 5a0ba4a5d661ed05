"""`DatasetConfig`: config.json of an embedding dataset, read and checked as a whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any

from midstep.core import strict_json
from midstep.core.errors import DatasetError, FormatError
from midstep.core.field_checks import at_least, integer, one_of, shares
from midstep.core.files.untrusted_files import file_problem, read_plain
from midstep.data.steering.curriculum import curriculum_problem
from midstep.data.steering.storage.layout import CONFIG_NAME, FORMS, SPLITS, VARIANTS, Form

FORMAT_VERSION = 1
MOST_CONFIG_BYTES = 16 << 20
"""A larger config.json is refused before memory is taken for it."""
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


@dataclass(frozen=True, kw_only=True)
class DatasetConfig:
    """The content of config.json. One `DatasetError` lists everything that is wrong with it.

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
    """Probabilities of zero, centroid, keyword, residual; their sum is 1."""
    random_seed: int
    """Seed of variants and chosen negatives; also of the order, unless a loader has its own."""
    split_ratios: Mapping[str, float] = field(
        default_factory=lambda: {"train": 0.8, "val": 0.1, "test": 0.1}
    )
    """Shares of train, val, test; their sum is 1."""
    storage_format: Form = "memmap"
    """The storage form."""
    format_version: int = FORMAT_VERSION
    """Version of the layout."""
    curriculum: Mapping[str, Any] = field(default_factory=lambda: {"name": "linear_zero"})
    """Name and settings of the schedule of variants."""
    steering_definition: str = "stored"
    """How the steering tables were computed: `standard`, `legacy`, or `stored` if unknown."""
    files: Mapping[str, str] = field(default_factory=dict)
    """SHA-256 of every file."""
    tables: Mapping[str, str] = field(default_factory=dict)
    """Digest of every table's content, the same in all three forms."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Further keys of config.json, kept as they are."""

    def __post_init__(self) -> None:
        DatasetError.raise_if(f"{CONFIG_NAME} is wrong", _problems(vars(self)))

    @property
    def counts(self) -> dict[str, int]:
        """The counts by which shapes are checked."""
        return {name: getattr(self, name) for name in COUNTS}

    @classmethod
    def from_json(cls, value: Any) -> DatasetConfig:
        """Build it from the parsed content of config.json."""
        if not isinstance(value, Mapping):
            raise DatasetError(f"{CONFIG_NAME} must hold an object, got {type(value).__name__}")
        known = {each.name for each in fields(cls)} - {"extra"}
        given = {name: value[name] for name in known & value.keys()}
        if isinstance(given.get("split_ratios"), list):  # older files have no names here
            given["split_ratios"] = dict(zip(SPLITS, given["split_ratios"], strict=False))
        missing = [f"{name} is missing" for name in REQUIRED if name not in given]
        DatasetError.raise_if(f"{CONFIG_NAME} is wrong", [*missing, *_problems(given)])
        return cls(**given, extra={name: value[name] for name in value.keys() - known})

    def to_json(self) -> dict[str, Any]:
        """The content of config.json."""
        known = {name: value for name, value in vars(self).items() if name != "extra"}
        content: dict[str, Any] = strict_json.plain({**known, **self.extra})
        return content


def read_config(folder: str | Path) -> DatasetConfig:
    """Read the config of a dataset folder.

    Raises:
        DatasetError: if it is missing or wrong, with all problems.
    """
    path = Path(folder) / CONFIG_NAME
    try:
        text = read_plain(path, MOST_CONFIG_BYTES)
        return DatasetConfig.from_json(strict_json.loads(text))
    except (FileNotFoundError, NotADirectoryError):
        raise DatasetError(f"{path} is missing; {_describe_folder(Path(folder))}") from None
    except OSError as error:
        reason = file_problem(path) or error.strerror
        raise DatasetError(f"{path} cannot be read: {reason}") from error
    except FormatError as error:
        raise DatasetError(f"{path} is {error}") from None
    except DatasetError as error:
        raise DatasetError(f"{path} is wrong", error.problems or [str(error)]) from None


def _describe_folder(folder: Path) -> str:
    """What a folder without config.json seems to be, and what to do."""
    if folder.is_file():
        return f"{folder} is a file, a dataset is a folder"
    if (folder / "dataset.db").is_file():
        return f"{folder} is a cluster-labelled dataset: open it with ClusterLabeledDataset"
    if (folder / "build.json").is_file():
        return f"{folder} is not a steering dataset; midstep data info {folder} says what it is"
    return f"is {folder} the folder of a dataset?"


def _problems(values: Mapping[str, Any]) -> list[str | None]:
    """The result of every check of the fields that are given."""
    problems = [check(name, values[name]) for name, check in _CHECKS.items() if name in values]
    for name in ("files", "tables"):
        problems += _digest_problems(name, values.get(name, {}))
    return problems


def _digest_problems(name: str, value: Any) -> list[str]:
    if not isinstance(value, Mapping):
        return [f"{name} must map names to digests, got {value!r}"]
    return [
        f"{name}.{key} must be a SHA-256 in hexadecimal, got {digest!r}"
        for key, digest in value.items()
        if not (isinstance(digest, str) and len(digest) == 64)
    ]


_CHECKS: dict[str, Callable[[str, Any], str | None]] = {
    **{name: partial(at_least, least=0 if name in MAY_BE_ZERO else 1) for name in COUNTS},
    "split_ratios": partial(shares, keys=SPLITS),
    "steering_probabilities": partial(shares, keys=VARIANTS),
    "storage_format": partial(one_of, choices=FORMS),
    "random_seed": integer,
    "format_version": partial(one_of, choices=(FORMAT_VERSION,)),
    "curriculum": curriculum_problem,
    "steering_definition": partial(one_of, choices=DEFINITIONS),
}

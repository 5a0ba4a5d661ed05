"""Whether anything of one split is known to another: questions, source texts, near duplicates.

A split uses a source when it is the answer of one of its pairs or one of their negatives. Texts are
compared in their normalised form; a dataset without texts is compared by its vectors.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from midstep.core import storage, strict_json
from midstep.core.errors import ConfigError, DatasetError, FormatError
from midstep.data.build.clustering import unit_rows
from midstep.data.build.distinct import normalised
from midstep.data.build.search import above
from midstep.data.build.sidecars import Texts
from midstep.data.embedding.layout import SPLITS, split_table
from midstep.data.embedding.tables import Tables, open_tables

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ids = NDArray[np.int64]

__all__ = ["AuditReport", "Level", "audit_dataset"]

FORMAT = 1
EXAMPLES = 100
NEAR_DUPLICATE = 0.95
AUDIT_NAME = "audit.json"


@dataclass(frozen=True, kw_only=True)
class Level:
    """What was found on one level."""

    leaks: int
    """How many; a text in three splits counts once a pair of splits."""
    examples: tuple[Mapping[str, Any], ...]
    """The first of them: split_a, row_a, split_b, row_b, kind, text, similarity."""
    threshold: float | None = None
    """Cosine from which texts are near duplicates."""

    def to_json(self) -> dict[str, Any]:
        """As in audit.json."""
        made: dict[str, Any] = {"leaks": self.leaks, "examples": [dict(e) for e in self.examples]}
        return made if self.threshold is None else {**made, "threshold": self.threshold}


@dataclass(frozen=True, kw_only=True)
class AuditReport:
    """The three levels."""

    levels: Mapping[str, Level]
    """`question`, `source_text`, `near_duplicate`."""

    @property
    def clean(self) -> bool:
        """Whether nothing was found on any level."""
        return not any(level.leaks for level in self.levels.values())

    def to_json(self) -> dict[str, Any]:
        """As in audit.json."""
        levels = {name: level.to_json() for name, level in self.levels.items()}
        return {"format": FORMAT, "levels": levels, "clean": self.clean}


def audit_dataset(
    folder: str | Path, *, near_duplicate: float | None = None, write: bool = False
) -> AuditReport:
    """Look for leaks between the splits of a dataset.

    Args:
        folder: of the dataset, built here or elsewhere.
        near_duplicate: cosine from which two texts are nearly the same; what the dataset was built
            with when left out, else 0.95.
        write: put the report into the folder as audit.json.

    Raises:
        ConfigError: if `near_duplicate` is no cosine above 0.
        DatasetError: if a vector is not finite: it is like no other, so nothing could be found.
    """
    if near_duplicate is not None and not _is_threshold(near_duplicate):
        raise ConfigError(
            f"near_duplicate must be a cosine above 0 and up to 1, got {near_duplicate!r}; "
            f"{NEAR_DUPLICATE} is usual, leave it out for what the dataset was built with"
        )
    tables = open_tables(folder, verify=False)
    least = _built_with(Path(folder)) if near_duplicate is None else near_duplicate
    used = {"question": _questions(tables), "source": _sources(tables)}
    _check_finite(tables, used)
    keys = {kind: _Keys(tables, kind) for kind in used}
    report = AuditReport(
        levels={
            "question": _level(_same(used["question"], keys["question"])),
            "source_text": _level(_same(used["source"], keys["source"])),
            "near_duplicate": _near(tables, used, keys, least),
        }
    )
    if write:
        storage.replace_json(Path(folder) / AUDIT_NAME, report.to_json())
    return report


def _built_with(folder: Path) -> float:
    try:
        told = strict_json.loads((folder / "build.json").read_bytes())
        least = float(told["config"]["near_duplicate"])
    except (OSError, FormatError, KeyError, TypeError, ValueError):
        return NEAR_DUPLICATE  # a dataset from elsewhere says nothing of it
    return least if _is_threshold(least) else NEAR_DUPLICATE


def _is_threshold(value: float) -> bool:
    return 0 < value <= 1


def _check_finite(tables: Tables, used: Mapping[str, Mapping[str, Ids]]) -> None:
    problems = []
    for kind, splits in used.items():
        rows = np.unique(np.concatenate(list(splits.values())))
        vectors = np.asarray(tables[f"{kind}_embs"])
        wrong = rows[~np.isfinite(vectors[rows]).all(axis=1)]
        if len(wrong):
            problems.append(
                f"{kind}_embs[{wrong[0]}] has a value that is not finite, as have "
                f"{len(wrong) - 1:,} more of the {len(rows):,} rows in use"
            )
    if problems:
        raise DatasetError(
            f"{tables.folder} cannot be audited, rows that are not finite compare with nothing; "
            "embed these texts again",
            problems,
        )


def _questions(tables: Tables) -> dict[str, Ids]:
    """The questions of each split."""
    return {
        split: np.unique(tables["pair_index"][tables[split_table(split)], 0]) for split in SPLITS
    }


def _sources(tables: Tables) -> dict[str, Ids]:
    """The sources that each split sees: answers and negatives."""
    used = {}
    for split in SPLITS:
        pairs = tables[split_table(split)]
        answers = tables["pair_index"][pairs, 1]
        used[split] = np.union1d(answers, np.unique(tables["hard_negatives"][pairs]))
    return used


class _Keys:
    """What a row is compared by: its normalised text, or its vector's digest."""

    def __init__(self, tables: Tables, kind: str) -> None:
        self.kind, self._vectors = kind, tables[f"{kind}_embs"]
        there = Texts.there(tables.folder, f"{kind}s")
        self._texts = Texts(tables.folder, f"{kind}s") if there else None
        self._codes: dict[str, int] = {}

    def text(self, row: int) -> str | None:
        """As written, where it is known."""
        return None if self._texts is None else self._texts[row]

    def __getitem__(self, row: int) -> str:
        text = self.text(row)
        if text is not None:
            return normalised(text)
        return hashlib.sha256(np.ascontiguousarray(self._vectors[row]).data).hexdigest()

    def codes(self, rows: Ids) -> Ids:
        """A number for each row, the same for rows with the same key."""
        made = (self._codes.setdefault(self[int(row)], len(self._codes)) for row in rows)
        return np.fromiter(made, dtype=np.int64, count=len(rows))


def _same(used: Mapping[str, Ids], keys: _Keys) -> Iterator[dict[str, Any]]:
    """Rows of two splits with the same key."""
    known = {split: {keys[int(row)]: int(row) for row in rows} for split, rows in used.items()}
    for one, other in combinations(SPLITS, 2):
        for key in sorted(known[one].keys() & known[other].keys()):
            rows = known[one][key], known[other][key]
            yield _leak(keys, (one, other), rows)


def _near(
    tables: Tables, used: Mapping[str, Mapping[str, Ids]], keys: Mapping[str, _Keys], least: float
) -> Level:
    """Rows of two splits that nearly say the same; those that do are told on the levels before."""
    leaks, examples = 0, list[dict[str, Any]]()
    for kind, rows in used.items():
        vectors = {
            split: unit_rows(np.asarray(tables[f"{kind}_embs"])[ids]) for split, ids in rows.items()
        }
        codes = {split: keys[kind].codes(ids) for split, ids in rows.items()}
        for one, other in combinations(SPLITS, 2):
            for left, right, score in above(vectors[other], vectors[one], least):
                differ = np.flatnonzero(codes[one][right] != codes[other][left])
                leaks += len(differ)
                for at in differ[: EXAMPLES - len(examples)]:
                    pair = int(rows[one][right[at]]), int(rows[other][left[at]])
                    told = _leak(keys[kind], (one, other), pair)
                    examples.append({**told, "similarity": round(float(score[at]), 6)})
    return Level(leaks=leaks, examples=tuple(examples), threshold=least)


def _leak(keys: _Keys, splits: tuple[str, str], rows: tuple[int, int]) -> dict[str, Any]:
    told: dict[str, Any] = {
        "kind": keys.kind,
        "split_a": splits[0],
        "row_a": rows[0],
        "split_b": splits[1],
        "row_b": rows[1],
    }
    text = keys.text(rows[0])
    return told if text is None else {**told, "text": text[:400]}


def _level(found: Iterator[dict[str, Any]]) -> Level:
    examples: list[dict[str, Any]] = []
    leaks = 0
    for each in found:
        leaks += 1
        if len(examples) < EXAMPLES:
            examples.append(each)
    return Level(leaks=leaks, examples=tuple(examples))

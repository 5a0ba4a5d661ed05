"""Check for leakage between splits: shared questions, shared source texts, near duplicates.

A split uses a source if it is the answer or a negative of one of its pairs. Texts are compared in
their normalised form; a dataset without texts is compared by its vectors.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from midstep.core import strict_json
from midstep.core.errors import ConfigError, DatasetError, FormatError
from midstep.core.field_checks import cosine_threshold
from midstep.core.files import storage
from midstep.core.files.untrusted_files import read_plain
from midstep.data.exact_search import pairs_above, unit_rows
from midstep.data.steering.storage.layout import SPLITS, split_table
from midstep.data.steering.storage.tables import Tables, open_tables
from midstep.data.text.normalise import normalise_text
from midstep.data.text.text_files import Texts

Ids = NDArray[np.int64]

FORMAT = 1
EXAMPLES = 100
"""Leaks that a level lists; it counts all of them."""
NEAR_DUPLICATE = 0.95
"""Threshold for a dataset that does not say with which one it was built."""
AUDIT_NAME = "audit.json"
MOST_RECORD_BYTES = 16 << 20
"""A larger build.json is not read."""


@dataclass(frozen=True, kw_only=True)
class AuditLevel:
    """The leaks on one level."""

    leaks: int
    """How many; a text in three splits counts once for each pair of splits."""
    examples: tuple[Mapping[str, Any], ...]
    """The first leaks: split_a, row_a, split_b, row_b, kind, text, similarity."""
    threshold: float | None = None
    """Cosine from which texts are near duplicates."""

    def to_json(self) -> dict[str, Any]:
        """As in audit.json."""
        report: dict[str, Any] = {"leaks": self.leaks, "examples": [dict(e) for e in self.examples]}
        return report if self.threshold is None else {**report, "threshold": self.threshold}


@dataclass(frozen=True, kw_only=True)
class AuditReport:
    """The result of `audit_dataset`: leaks on three levels."""

    levels: Mapping[str, AuditLevel]
    """`question`, `source_text`, `near_duplicate`."""

    @property
    def clean(self) -> bool:
        """Whether there is no leak on any level."""
        return not any(level.leaks for level in self.levels.values())

    def to_json(self) -> dict[str, Any]:
        """As in audit.json."""
        levels = {name: level.to_json() for name, level in self.levels.items()}
        return {"format": FORMAT, "levels": levels, "clean": self.clean}


def audit_dataset(
    folder: str | Path, *, near_duplicate: float | None = None, write: bool = False
) -> AuditReport:
    """Search for leaks between the splits of a dataset.

    Args:
        folder: of the dataset, built here or elsewhere.
        near_duplicate: cosine from which two texts are near duplicates; by default the one that
            the dataset was built with, else 0.95.
        write: write the report to audit.json in the folder.

    Raises:
        ConfigError: if `near_duplicate` is not a cosine above 0.
        DatasetError: if a vector is not finite; a comparison with it would find no leak.
    """
    if near_duplicate is not None:
        problem = cosine_threshold("near_duplicate", near_duplicate)
        if problem is not None:
            raise ConfigError(
                f"{problem}; {NEAR_DUPLICATE} is usual, leave it out for the value that the "
                "dataset was built with"
            )
    tables = open_tables(folder, verify=False)
    least = _threshold_of_build(Path(folder)) if near_duplicate is None else near_duplicate
    used = _rows_in_use(tables)
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


def _threshold_of_build(folder: Path) -> float:
    try:
        report = strict_json.loads(read_plain(folder / "build.json", MOST_RECORD_BYTES))
        least = float(report["config"]["near_duplicate"])
    except (OSError, FormatError, LookupError, TypeError, ValueError, OverflowError):
        return NEAR_DUPLICATE  # a dataset that was not built by midstep does not say it
    return NEAR_DUPLICATE if cosine_threshold("near_duplicate", least) else least


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
    DatasetError.raise_if(
        f"{tables.folder} cannot be audited, because a row that is not finite equals no other; "
        "embed these texts again",
        problems,
    )


def _rows_in_use(tables: Tables) -> dict[str, dict[str, Ids]]:
    """The questions of each split, and the sources that it uses: answers and negatives."""
    questions, sources = {}, {}
    for split in SPLITS:
        pairs = tables[split_table(split)]
        questions[split] = np.unique(tables["pair_index"][pairs, 0])
        answers = tables["pair_index"][pairs, 1]
        sources[split] = np.union1d(answers, np.unique(tables["hard_negatives"][pairs]))
    return {"question": questions, "source": sources}


class _Keys:
    """The keys by which rows are compared: normalised texts, or digests of vectors."""

    def __init__(self, tables: Tables, kind: str) -> None:
        self.kind, self._vectors = kind, tables[f"{kind}_embs"]
        has_texts = Texts.exist(tables.folder, f"{kind}s")
        self._texts = Texts(tables.folder, f"{kind}s") if has_texts else None
        if self._texts is not None and len(self._texts) != len(self._vectors):
            raise DatasetError(
                f"{self._texts.path} has {len(self._texts):,} texts, expected "
                f"{len(self._vectors):,}; restore the dataset or build it again"
            )
        self._codes: dict[str, int] = {}

    def text(self, row: int) -> str | None:
        """The text of a row as written; None if the dataset has no texts."""
        return None if self._texts is None else self._texts[row]

    def __getitem__(self, row: int) -> str:
        text = self.text(row)
        if text is not None:
            return normalise_text(text)
        return hashlib.sha256(np.ascontiguousarray(self._vectors[row]).data).hexdigest()

    def codes(self, rows: Ids) -> Ids:
        """A number for each row, the same for rows with the same key."""
        codes = (self._codes.setdefault(self[int(row)], len(self._codes)) for row in rows)
        return np.fromiter(codes, dtype=np.int64, count=len(rows))


def _same(used: Mapping[str, Ids], keys: _Keys) -> Iterator[dict[str, Any]]:
    """Rows of two splits with the same key."""
    known = {split: {keys[int(row)]: int(row) for row in rows} for split, rows in used.items()}
    for one, other in combinations(SPLITS, 2):
        for key in sorted(known[one].keys() & known[other].keys()):
            rows = known[one][key], known[other][key]
            yield _leak(keys, (one, other), rows)


def _near(
    tables: Tables, used: Mapping[str, Mapping[str, Ids]], keys: Mapping[str, _Keys], least: float
) -> AuditLevel:
    """Rows of two splits that are near duplicates. Equal texts belong to the levels before."""
    leaks, examples = 0, list[dict[str, Any]]()
    for kind, rows in used.items():
        vectors = {
            split: unit_rows(np.asarray(tables[f"{kind}_embs"])[ids]) for split, ids in rows.items()
        }
        codes = {split: keys[kind].codes(ids) for split, ids in rows.items()}
        for one, other in combinations(SPLITS, 2):
            for left, right, score in pairs_above(vectors[other], vectors[one], least):
                differ = np.flatnonzero(codes[one][right] != codes[other][left])
                leaks += len(differ)
                for at in differ[: EXAMPLES - len(examples)]:
                    pair = int(rows[one][right[at]]), int(rows[other][left[at]])
                    leak = _leak(keys[kind], (one, other), pair)
                    examples.append({**leak, "similarity": round(float(score[at]), 6)})
    return AuditLevel(leaks=leaks, examples=tuple(examples), threshold=least)


def _leak(keys: _Keys, splits: tuple[str, str], rows: tuple[int, int]) -> dict[str, Any]:
    leak: dict[str, Any] = {
        "kind": keys.kind,
        "split_a": splits[0],
        "row_a": rows[0],
        "split_b": splits[1],
        "row_b": rows[1],
    }
    text = keys.text(rows[0])
    return leak if text is None else {**leak, "text": text[:400]}


def _level(leaking: Iterator[dict[str, Any]]) -> AuditLevel:
    examples: list[dict[str, Any]] = []
    leaks = 0
    for each in leaking:
        leaks += 1
        if len(examples) < EXAMPLES:
            examples.append(each)
    return AuditLevel(leaks=leaks, examples=tuple(examples))

"""Merge the rows of the tables: each question, source, keyword and pair is kept once.

`normalise_text` decides which texts are the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from midstep.core.errors import DatasetError
from midstep.data.build.read_table import Rows
from midstep.data.ragged import Ragged
from midstep.data.steering.storage.layout import SPLITS
from midstep.data.text.normalise import NumberedTexts


@dataclass(frozen=True, kw_only=True)
class DistinctTexts:
    """The rows of the tables without repeats. Stages store the fields under these names."""

    questions: list[str]
    """The questions as they were first written."""
    sources: list[str]
    keywords: list[str]
    pair_index: NDArray[np.int64]
    """[P, 2]: question and source of each pair; a pair has a relevance above 0."""
    relevance: NDArray[np.float32]
    """[P]: the largest relevance that a row gives."""
    keyword_ids: Ragged
    """The keywords of each pair, from all its rows."""
    irrelevant: NDArray[np.int64]
    """[I, 2]: question and source of rows with relevance 0."""
    question_row: NDArray[np.int64]
    """[Q]: the row of the tables in which a question first occurs."""
    source_row: NDArray[np.int64]
    """[S]: the same for sources."""
    given_split: NDArray[np.int64]
    """[Q]: the split that the table names: 0 train, 1 val, 2 test, −1 none."""
    dropped_rows: int
    """Rows that repeat the question and source of another row."""

    def positives(self) -> Ragged:
        """The sources that answer each question."""
        order = np.argsort(self.pair_index[:, 0], kind="stable")
        counts = np.bincount(self.pair_index[:, 0], minlength=len(self.questions))
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        return Ragged(offsets, self.pair_index[order, 1])


def deduplicate(rows: Rows) -> DistinctTexts:
    """Merge rows whose question and source are the same texts.

    >>> rows = Rows(questions=["Why?", "why"], sources=["A.", "B"], relevance=[1, 0.5],
    ...             keywords=[["x"], []], splits=["", ""])
    >>> texts = deduplicate(rows)
    >>> texts.questions, texts.pair_index.tolist()
    (['Why?'], [[0, 0], [0, 1]])
    """
    questions, sources, keywords = NumberedTexts(), NumberedTexts(), NumberedTexts()
    best: dict[tuple[int, int], float] = {}
    keyword_ids: dict[tuple[int, int], dict[int, None]] = {}  # dicts keep the order of keywords
    for row, (question, source) in enumerate(zip(rows.questions, rows.sources, strict=True)):
        pair = questions.add(question.strip(), row), sources.add(source.strip(), row)
        best[pair] = max(best.get(pair, 0.0), rows.relevance[row])
        ids = keyword_ids.setdefault(pair, {})
        ids.update((keywords.add(each.strip(), row), None) for each in rows.keywords[row])
    pairs = [pair for pair, relevance in best.items() if relevance > 0]
    if not pairs:
        raise DatasetError("no row has a relevance above 0: there is no pair to train on")
    return DistinctTexts(
        questions=questions.texts,
        sources=sources.texts,
        keywords=keywords.texts,
        pair_index=_pair_array(pairs),
        relevance=np.array([best[pair] for pair in pairs], dtype=np.float32),
        keyword_ids=Ragged.from_lists([list(keyword_ids[pair]) for pair in pairs]),
        irrelevant=_pair_array(pair for pair, relevance in best.items() if relevance == 0),
        question_row=np.array(questions.rows, dtype=np.int64),
        source_row=np.array(sources.rows, dtype=np.int64),
        given_split=_given_splits(rows, questions),
        dropped_rows=len(rows) - len(best),
    )


def _pair_array(pairs: Iterable[tuple[int, int]]) -> NDArray[np.int64]:
    return np.array(list(pairs), dtype=np.int64).reshape(-1, 2)


def _given_splits(rows: Rows, questions: NumberedTexts) -> NDArray[np.int64]:
    """The split that the table names for each question.

    Raises:
        DatasetError: if rows of one question name different splits.
    """
    splits = np.full(len(questions), -1, dtype=np.int64)
    problems = []
    for row, (question, split) in enumerate(zip(rows.questions, rows.splits, strict=True)):
        if not split:
            continue
        number = questions.add(question.strip(), row)  # known already: this only looks it up
        if splits[number] not in (-1, SPLITS.index(split)):
            other = SPLITS[splits[number]]
            problems.append(f"row {row}: {question[:60]!r} is in {split}, and before in {other}")
        splits[number] = SPLITS.index(split)
    DatasetError.raise_if("the table puts a question into two splits", problems[:20])
    return splits

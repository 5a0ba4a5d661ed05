"""Texts that differ only in how they are written count once: questions, sources, keywords, pairs.

Two texts are the same when their normalised forms are: Unicode NFKC, no invisible signs, case
folded, one space between words, no quotation or sentence marks at either end.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from midstep.core.errors import DatasetError
from midstep.data.build.reading import Rows
from midstep.data.embedding.layout import SPLITS, Ragged

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Distinct", "distinct", "normalised"]

_EDGES = " .,;:!?…\"'`´‘’“”«»„"
_SPACES = re.compile(r"\s+")


def normalised(text: str) -> str:
    """The form under which texts are compared.

    >>> normalised(" “Is  the SKY blue?” ") == normalised("is the sky blue")
    True
    >>> normalised("?!")  # nothing but marks: kept, so that it is still a text
    '?!'
    """
    folded = unicodedata.normalize("NFKC", text).casefold()
    # Case folding may undo composition ("ŉ"), so compose once more.
    visible = "".join(
        " " if sign.isspace() else sign
        for sign in unicodedata.normalize("NFKC", folded)
        if sign.isspace() or unicodedata.category(sign) not in ("Cc", "Cf")
    )
    spaced = _SPACES.sub(" ", visible).strip()
    return spaced.strip(_EDGES) or spaced


@dataclass(frozen=True, kw_only=True)
class Distinct:
    """What is left of the rows: each text once, each pair once."""

    questions: list[str]
    """As first written."""
    sources: list[str]
    keywords: list[str]
    pair_index: NDArray[np.int64]
    """[P, 2]: question, source; relevance above 0."""
    relevance: NDArray[np.float32]
    """[P]: the largest that was said."""
    keyword_ids: Ragged
    """Of each pair, all that were said."""
    irrelevant: NDArray[np.int64]
    """[I, 2]: question, source, judged and of relevance 0."""
    question_row: NDArray[np.int64]
    """[Q]: the row of the tables in which a question first stands."""
    source_row: NDArray[np.int64]
    """[S]: likewise."""
    given_split: NDArray[np.int64]
    """[Q]: 0 train, 1 val, 2 test, −1 where nothing was said."""
    dropped_rows: int
    """Rows that said again what another had."""

    def positives(self) -> Ragged:
        """The sources that answer each question."""
        order = np.argsort(self.pair_index[:, 0], kind="stable")
        counts = np.bincount(self.pair_index[:, 0], minlength=len(self.questions))
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        return Ragged(offsets, self.pair_index[order, 1])


class _Numbered:
    """Texts numbered in the order in which they first come."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.rows: list[int] = []
        self._number: dict[str, int] = {}

    def of(self, text: str, row: int) -> int:
        key = normalised(text)
        number = self._number.get(key)
        if number is None:
            number = self._number[key] = len(self.texts)
            self.texts.append(text.strip())
            self.rows.append(row)
        return number


def distinct(rows: Rows) -> Distinct:
    """Merge rows whose question and source are the same texts.

    >>> rows = Rows(questions=["Why?", "why"], sources=["A.", "B"], relevance=[1, 0.5],
    ...             keywords=[["x"], []], splits=["", ""])
    >>> found = distinct(rows)
    >>> found.questions, found.pair_index.tolist()
    (['Why?'], [[0, 0], [0, 1]])
    """
    questions, sources, keywords = _Numbered(), _Numbered(), _Numbered()
    best: dict[tuple[int, int], float] = {}
    said: dict[tuple[int, int], dict[int, None]] = {}
    for row, (question, source) in enumerate(zip(rows.questions, rows.sources, strict=True)):
        pair = questions.of(question, row), sources.of(source, row)
        best[pair] = max(best.get(pair, 0.0), rows.relevance[row])
        words = said.setdefault(pair, {})
        words.update((keywords.of(each, row), None) for each in rows.keywords[row])
    pairs = [pair for pair, relevance in best.items() if relevance > 0]
    if not pairs:
        raise DatasetError("no row has a relevance above 0: there is no pair to train on")
    return Distinct(
        questions=questions.texts,
        sources=sources.texts,
        keywords=keywords.texts,
        pair_index=_pairs(pairs),
        relevance=np.array([best[pair] for pair in pairs], dtype=np.float32),
        keyword_ids=Ragged.of([list(said[pair]) for pair in pairs]),
        irrelevant=_pairs(pair for pair, relevance in best.items() if relevance == 0),
        question_row=np.array(questions.rows, dtype=np.int64),
        source_row=np.array(sources.rows, dtype=np.int64),
        given_split=_given(rows, questions),
        dropped_rows=len(rows) - len(best),
    )


def _pairs(pairs: Iterable[tuple[int, int]]) -> NDArray[np.int64]:
    return np.array(list(pairs), dtype=np.int64).reshape(-1, 2)


def _given(rows: Rows, questions: _Numbered) -> NDArray[np.int64]:
    """The split that the table names for each question, which must be one."""
    given = np.full(len(questions.texts), -1, dtype=np.int64)
    problems = []
    for row, (question, split) in enumerate(zip(rows.questions, rows.splits, strict=True)):
        if not split:
            continue
        number = questions.of(question, row)
        if given[number] not in (-1, SPLITS.index(split)):
            other = SPLITS[given[number]]
            problems.append(f"row {row}: {question[:60]!r} is in {split}, and before in {other}")
        given[number] = SPLITS.index(split)
    if problems:
        raise DatasetError("the split of the table puts a question into two parts", problems[:20])
    return given

"""Triplets from a corpus and a store, question by question, in the corpus's order.

With R sources relevant to a question and K asked for:

| generator | triplets of a question | label |
|---|---|---|
| `positive_pairs` | C(R, 2): every two of the candidates | −1, for a judge |
| `contrastive` | R · K: every relevant source with K wrong ones | 1 or 2: which one is relevant |
| `similar` | every relevant source with the K sources nearest to it | −1, for a judge |

Candidates, and where wrong sources come from, are a criterion: `relevant`, `all_existing` or
`embedding_similarity`. A source that is relevant to the question, or has the text of one that is,
is never given as wrong. Everything is a pure function of (corpus, store, seed).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from midstep.core.errors import ConfigError
from midstep.core.random_streams import RandomStream
from midstep.data.rag.triplets import FIRST_BETTER, SECOND_BETTER, Corpus, Triplet
from midstep.data.rag.vector_stores import VectorStore

if TYPE_CHECKING:
    from numpy.typing import NDArray


Criterion = Literal["relevant", "all_existing", "embedding_similarity"]
CRITERIA: tuple[Criterion, ...] = ("relevant", "all_existing", "embedding_similarity")
BLOCK = 256
"""Questions searched for together."""


def positive_pairs(
    corpus: Corpus, store: VectorStore, *, criterion: Criterion = "relevant", k: int = 5
) -> Iterator[Triplet]:
    """Every two candidates of a question: which answers it better is for a judge to say.

    Args:
        corpus: questions and sources.
        store: of the sources.
        criterion: candidates are the relevant sources, all sources, or the k nearest to the
            question.
        k: for `embedding_similarity`.
    """
    _check(criterion, k)
    for question, candidates in _candidates(corpus, store, criterion, k):
        for first, second in combinations(candidates, 2):
            yield Triplet(question, first, second)


def _candidates(
    corpus: Corpus, store: VectorStore, criterion: Criterion, k: int
) -> Iterator[tuple[str, Sequence[str]]]:
    if criterion == "embedding_similarity":
        names = list(corpus.questions)
        nothing: list[set[str]] = [set() for _ in names]
        yield from zip(names, _nearest(store, corpus.question_embeddings, k, nothing), strict=True)
        return
    everything = list(corpus.sources)
    for question in corpus.questions:
        yield question, corpus.answers(question) if criterion == "relevant" else everything


def contrastive(
    corpus: Corpus,
    store: VectorStore,
    *,
    criterion: Criterion = "embedding_similarity",
    k: int = 5,
    seed: int = 0,
) -> Iterator[Triplet]:
    """Every relevant source of a question with K wrong ones.

    Args:
        corpus: questions and sources.
        store: of the sources.
        criterion: wrong sources are drawn from those relevant to other questions, drawn from all,
            or are the nearest to the question.
        k: wrong sources of a question; fewer only where there are fewer.
        seed: of the draw, and of which of the two comes first.
    """
    _check(criterion, k)
    questions = [name for name in corpus.questions if corpus.answers(name)]
    for question, wrong in _wrong_sources(corpus, store, questions, criterion, k, seed):
        side = RandomStream(seed, f"side of {question}")
        pairs = [(right, each) for right in corpus.answers(question) for each in wrong]
        for at, (right, each) in enumerate(pairs):
            # A model must not learn that the better one always comes first.
            if side.bits(at) & 1:
                yield Triplet(question, each, right, SECOND_BETTER)
            else:
                yield Triplet(question, right, each, FIRST_BETTER)


def _wrong_sources(
    corpus: Corpus,
    store: VectorStore,
    questions: Sequence[str],
    criterion: Criterion,
    k: int,
    seed: int,
) -> Iterator[tuple[str, Sequence[str]]]:
    if criterion == "embedding_similarity":
        rows_by_name = {name: row for row, name in enumerate(corpus.questions)}
        rows = corpus.question_embeddings[[rows_by_name[name] for name in questions]]
        forbidden = [corpus.never_negative(name) for name in questions]
        yield from zip(questions, _nearest(store, rows, k, forbidden), strict=True)
        return
    pool = list(corpus.sources)
    if criterion == "relevant":
        answering = {name for question in questions for name in corpus.answers(question)}
        pool = [name for name in pool if name in answering]
    for question in questions:
        stream = RandomStream(seed, f"negatives of {question}")
        yield question, draw_names(pool, k, corpus.never_negative(question), stream)


def similar(corpus: Corpus, store: VectorStore, *, k: int = 5) -> Iterator[Triplet]:
    """Every relevant source of a question with the k sources nearest to that source.

    A neighbour may answer the question as well, so the label is left to a judge.
    """
    _check("embedding_similarity", k)
    pairs = [(question, name) for question in corpus.questions for name in corpus.answers(question)]
    for start in range(0, len(pairs), BLOCK):
        block = pairs[start : start + BLOCK]
        records = store.get([name for _, name in block])
        rows = np.stack([records[name].embedding for _, name in block])
        forbidden = [corpus.never_negative(question) for question, _ in block]
        for (question, name), near in zip(block, _nearest(store, rows, k, forbidden), strict=True):
            for other in near:
                yield Triplet(question, name, other)


def draw_names(pool: Sequence[str], k: int, forbidden: set[str], stream: RandomStream) -> list[str]:
    """At most k of the pool, none twice, none forbidden: a partial Fisher-Yates shuffle.

    >>> sorted(draw_names(["a", "b", "c"], 5, {"b"}, RandomStream(0, "negatives")))
    ['a', 'c']
    """
    moved: dict[int, int] = {}
    chosen: list[str] = []
    for at in range(len(pool)):
        if len(chosen) == k:
            break
        other = at + stream.integer(len(pool) - at, at=at)
        picked = moved.get(other, other)
        moved[other] = moved.get(at, at)
        if pool[picked] not in forbidden:
            chosen.append(pool[picked])
    return chosen


def _nearest(
    store: VectorStore, rows: NDArray[Any], k: int, forbidden: Sequence[set[str]]
) -> Iterator[list[str]]:
    """The nearest k of each row that are not forbidden; asks for more where too few are left."""
    total = store.count()
    for start in range(0, len(rows), BLOCK):
        block, barred = rows[start : start + BLOCK], forbidden[start : start + BLOCK]
        wanted = k + max(map(len, barred), default=0)
        hits = store.search(block, min(wanted, total))
        for row, found, out in zip(block, hits, barred, strict=True):
            names, asked = [hit.id for hit in found if hit.id not in out], wanted
            while len(names) < k and asked < total:  # an approximate store may give fewer
                asked = min(2 * asked, total)
                again = store.search(row[None], asked)[0]
                names = [hit.id for hit in again if hit.id not in out]
            yield names[:k]


def _check(criterion: str, k: int) -> None:
    if criterion not in CRITERIA:
        raise ConfigError(f"criterion {criterion!r} is unknown; use {', '.join(CRITERIA)}")
    if k < 1:
        raise ConfigError(f"k must be at least 1, got {k}")

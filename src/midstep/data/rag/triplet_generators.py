"""Generate triplets from a corpus and a store, question by question, in the order of the corpus.

With R sources that are relevant to a question, and the setting K:

| generator | triplets of a question | label |
|---|---|---|
| `positive_pairs` | C(R, 2): every pair of candidates | −1, for a judge |
| `contrastive` | R · K: every relevant source with K wrong ones | 1 or 2: which one is relevant |
| `similar` | every relevant source with the K sources nearest to it | −1, for a judge |

The criterion says which sources are candidates, or where wrong sources come from: `relevant`,
`all_existing` or `embedding_similarity`. A source that is relevant to the question, or has the same
text as a relevant one, is never used as a wrong one. Everything is a pure function of (corpus,
store, seed).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from midstep.core.field_checks import at_least, one_of, require
from midstep.core.random_streams import RandomStream
from midstep.data.rag.triplets import FIRST_BETTER, SECOND_BETTER, Corpus, Triplet
from midstep.data.rag.vector_stores import VectorStore

Criterion = Literal["relevant", "all_existing", "embedding_similarity"]
CRITERIA: tuple[Criterion, ...] = ("relevant", "all_existing", "embedding_similarity")
BLOCK = 256
"""Queries that one search takes."""


def positive_pairs(
    corpus: Corpus, store: VectorStore, *, criterion: Criterion = "relevant", k: int = 5
) -> Iterator[Triplet]:
    """Every pair of candidates of a question. A judge says which one answers it better.

    Args:
        corpus: questions and sources.
        store: holds the sources.
        criterion: candidates are the relevant sources, all sources, or the k nearest to the
            question.
        k: number of candidates for `embedding_similarity`.
    """
    _check(criterion, k)
    for question, candidates in _candidates(corpus, store, criterion, k):
        for first, second in combinations(candidates, 2):
            yield Triplet(question, first, second)


def _candidates(
    corpus: Corpus, store: VectorStore, criterion: Criterion, k: int
) -> Iterator[tuple[str, Sequence[str]]]:
    if criterion == "embedding_similarity":
        forbidden: list[set[str]] = [set() for _ in corpus.questions]
        nearest = _nearest(store, corpus.question_embeddings, k, forbidden)
        yield from zip(corpus.questions, nearest, strict=True)
        return
    every_source = list(corpus.sources)
    for question in corpus.questions:
        yield question, corpus.answers(question) if criterion == "relevant" else every_source


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
        store: holds the sources.
        criterion: wrong sources are drawn from those relevant to other questions, drawn from all,
            or are the nearest to the question.
        k: wrong sources of a question; fewer only if there are fewer.
        seed: seed of the draw, and of which of the two sources comes first.
    """
    _check(criterion, k)
    questions = [name for name in corpus.questions if corpus.answers(name)]
    for question, wrong in _wrong_sources(corpus, store, questions, criterion, k, seed):
        side = RandomStream(seed, f"side of {question}")
        pairs = [(right, each) for right in corpus.answers(question) for each in wrong]
        for at, (right, each) in enumerate(pairs):
            # Random sides: a model must not learn that the better source always comes first.
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
    """Draw at most k names of the pool, none twice, none forbidden: a partial Fisher-Yates shuffle.

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
    """The nearest k names of each row that are not forbidden; searches again for missing ones."""
    total = store.count()
    for start in range(0, len(rows), BLOCK):
        block, block_forbidden = rows[start : start + BLOCK], forbidden[start : start + BLOCK]
        wanted = k + max(map(len, block_forbidden), default=0)
        searched = store.search(block, min(wanted, total))
        for row, hits, excluded in zip(block, searched, block_forbidden, strict=True):
            names, count = [hit.id for hit in hits if hit.id not in excluded], wanted
            while len(names) < k and count < total:  # an approximate store may return fewer
                count = min(2 * count, total)
                more = store.search(row[None], count)[0]
                names = [hit.id for hit in more if hit.id not in excluded]
            yield names[:k]


def _check(criterion: str, k: int) -> None:
    require(one_of("criterion", criterion, CRITERIA), at_least("k", k, 1))

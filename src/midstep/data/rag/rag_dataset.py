"""`RAGDatasetBase`: generates triplets from the corpus that a subclass loads.

Triplets come question by question, in the order of the corpus. With R sources that are relevant to
a question, and the setting K:

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

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from midstep.core.errors import ConfigError, DatasetError
from midstep.core.field_checks import at_least, one_of, require
from midstep.core.random_streams import RandomStream
from midstep.data.rag.judges import Judge, LabelProgress, label_triplets
from midstep.data.rag.triplets import FIRST_BETTER, SECOND_BETTER, Corpus, Triplet
from midstep.data.rag.vector_stores import (
    PAGE,
    ExactStore,
    StoreRecall,
    VectorStore,
    copy_to_exact,
    store_recall,
)

SampleKind = Literal["positive", "contrastive", "similar"]
Criterion = Literal["relevant", "all_existing", "embedding_similarity"]
CRITERIA: tuple[Criterion, ...] = ("relevant", "all_existing", "embedding_similarity")
BLOCK = 256
"""Queries that one search takes."""


@dataclass(frozen=True, kw_only=True)
class RAGReport:
    """The result of `validate`."""

    questions: int
    sources: int
    relevant_pairs: int
    """Pairs of a question and a source that answers it."""
    unanswered: tuple[str, ...]
    """Questions without a relevant source; the criterion `relevant` gives no triplets for them."""
    recall: StoreRecall | None
    """Recall of the store against exact search; None for an exact store."""


class RAGDatasetBase(ABC):
    """Triplets over questions and sources in a vector store.

    A subclass implements `load`: it returns questions, sources and which source answers which
    question, and adds the embeddings of the sources to `self.store`.

    Args:
        store: holds the sources; by default an exact store in memory.
        seed: seed of drawn negatives and of the order inside a triplet.
    """

    def __init__(self, store: VectorStore | None = None, *, seed: int = 0) -> None:
        self.store: VectorStore = ExactStore() if store is None else store
        self.seed = seed

    @abstractmethod
    def load(self) -> Corpus:
        """Read everything, add missing sources to the store, and return the corpus."""

    @cached_property
    def corpus(self) -> Corpus:
        """The result of `load`, which is called at the first use."""
        return self.load()

    def validate(self, *, k: int = 10) -> RAGReport:
        """Check that corpus and store belong together. One error lists everything that is wrong.

        Args:
            k: hits per query when the recall of an approximate store is measured.
        """
        corpus = self.corpus
        problems = [
            f"{kind} {name!r} has no text"
            for kind, texts in (("question", corpus.questions), ("source", corpus.sources))
            for name, text in texts.items()
            if not text.strip()
        ]
        problems += self._store_problems()
        DatasetError.raise_if(f"{type(self).__name__} is wrong", problems[:20])
        return RAGReport(
            questions=len(corpus.questions),
            sources=len(corpus.sources),
            relevant_pairs=sum(len(corpus.answers(name)) for name in corpus.questions),
            unanswered=tuple(name for name in corpus.questions if not corpus.answers(name)),
            recall=self._recall(k),
        )

    def _store_problems(self) -> list[str]:
        corpus, names = self.corpus, list(self.corpus.sources)
        if self.store.count() != len(names):
            return [f"the store has {self.store.count()} records for {len(names)} sources"]
        problems = []
        for start in range(0, len(names), PAGE):
            page = names[start : start + PAGE]
            records = self.store.get(page)
            for name in page:
                if name not in records:
                    problems.append(f"source {name!r} is not in the store")
                elif records[name].text != corpus.sources[name]:
                    problems.append(f"source {name!r} has another text in the store")
        return problems

    def _recall(self, k: int) -> StoreRecall | None:
        if self.store.exact or not self.corpus.questions:
            return None
        exact = copy_to_exact(self.store, list(self.corpus.sources))
        return store_recall(self.store, exact, self.corpus.question_embeddings[:PAGE], k)

    # -- samples ----------------------------------------------------------------------------------

    def generate_samples(
        self, kind: SampleKind = "positive", *, criterion: Criterion | None = None, k: int = 5
    ) -> Iterator[Triplet]:
        """Triplets of a kind, one after another; every call gives the same ones.

        Args:
            kind: `positive` (C(R, 2) triplets of a question), `contrastive` (R · K) or `similar`.
            criterion: `relevant`, `all_existing` or `embedding_similarity`; each kind has its
                default.
            k: wrong or similar sources, or candidates of `embedding_similarity`.
        """
        if kind == "positive":
            return self.positive_pairs(criterion or "relevant", k)
        if kind == "contrastive":
            return self.contrastive(k, criterion or "embedding_similarity")
        if kind != "similar":
            raise ConfigError(f"kind {kind!r} is unknown; use positive, contrastive or similar")
        if criterion not in (None, "embedding_similarity"):
            raise ConfigError(
                f"similar samples need the criterion embedding_similarity, got {criterion!r}"
            )
        return self.similar(k)

    def positive_pairs(self, criterion: Criterion = "relevant", k: int = 5) -> Iterator[Triplet]:
        """Every pair of candidates of a question. A judge says which one answers it better.

        Args:
            criterion: candidates are the relevant sources, all sources, or the k nearest to the
                question.
            k: number of candidates for `embedding_similarity`.
        """
        _check(criterion, k)
        for question, candidates in self._candidates(criterion, k):
            for first, second in combinations(candidates, 2):
                yield Triplet(question, first, second)

    def _candidates(self, criterion: Criterion, k: int) -> Iterator[tuple[str, Sequence[str]]]:
        corpus = self.corpus
        if criterion == "embedding_similarity":
            forbidden: list[set[str]] = [set() for _ in corpus.questions]
            nearest = self._nearest(corpus.question_embeddings, k, forbidden)
            yield from zip(corpus.questions, nearest, strict=True)
            return
        every_source = list(corpus.sources)
        for question in corpus.questions:
            yield question, corpus.answers(question) if criterion == "relevant" else every_source

    def contrastive(
        self, k: int = 5, criterion: Criterion = "embedding_similarity"
    ) -> Iterator[Triplet]:
        """Every relevant source of a question with k wrong ones, labelled.

        Args:
            k: wrong sources of a question; fewer only if there are fewer.
            criterion: wrong sources are drawn from those relevant to other questions, drawn from
                all, or are the nearest to the question.
        """
        _check(criterion, k)
        for question, wrong in self._wrong_sources(criterion, k):
            side = RandomStream(self.seed, f"side of {question}")
            pairs = [(right, each) for right in self.corpus.answers(question) for each in wrong]
            for at, (right, each) in enumerate(pairs):
                # Random sides: a model must not learn that the better source always comes first.
                if side.bits(at) & 1:
                    yield Triplet(question, each, right, SECOND_BETTER)
                else:
                    yield Triplet(question, right, each, FIRST_BETTER)

    def _wrong_sources(self, criterion: Criterion, k: int) -> Iterator[tuple[str, Sequence[str]]]:
        corpus = self.corpus
        questions = [name for name in corpus.questions if corpus.answers(name)]
        if criterion == "embedding_similarity":
            rows_by_name = {name: row for row, name in enumerate(corpus.questions)}
            rows = corpus.question_embeddings[[rows_by_name[name] for name in questions]]
            forbidden = [corpus.never_negative(name) for name in questions]
            yield from zip(questions, self._nearest(rows, k, forbidden), strict=True)
            return
        pool = list(corpus.sources)
        if criterion == "relevant":
            answering = {name for question in questions for name in corpus.answers(question)}
            pool = [name for name in pool if name in answering]
        for question in questions:
            stream = RandomStream(self.seed, f"negatives of {question}")
            yield question, draw_names(pool, k, corpus.never_negative(question), stream)

    def similar(self, k: int = 5) -> Iterator[Triplet]:
        """Every relevant source of a question with the k sources nearest to that source.

        A neighbour may answer the question as well, so the label is left to a judge.
        """
        _check("embedding_similarity", k)
        corpus = self.corpus
        pairs = [
            (question, name) for question in corpus.questions for name in corpus.answers(question)
        ]
        for start in range(0, len(pairs), BLOCK):
            block = pairs[start : start + BLOCK]
            records = self.store.get([name for _, name in block])
            rows = np.stack([records[name].embedding for _, name in block])
            forbidden = [corpus.never_negative(question) for question, _ in block]
            for (question, name), near in zip(
                block, self._nearest(rows, k, forbidden), strict=True
            ):
                for other in near:
                    yield Triplet(question, name, other)

    def _nearest(
        self, rows: NDArray[Any], k: int, forbidden: Sequence[set[str]]
    ) -> Iterator[list[str]]:
        """The nearest k names of each row that are not forbidden; searches again for missing."""
        store, total = self.store, self.store.count()
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

    def label(
        self,
        path: str | Path,
        judge: Judge,
        kind: SampleKind = "positive",
        *,
        criterion: Criterion | None = None,
        k: int = 5,
        batch_size: int = 64,
        progress: Callable[[LabelProgress], None] | None = None,
    ) -> LabelProgress:
        """Generate triplets, let the judge label them, and append them to `path`.

        Called again after a kill, it continues where it was. `label_triplets` has the arguments.
        """
        triplets = self.generate_samples(kind, criterion=criterion, k=k)
        return label_triplets(
            path, triplets, self.corpus, judge, batch_size=batch_size, progress=progress
        )


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


def _check(criterion: str, k: int) -> None:
    require(one_of("criterion", criterion, CRITERIA), at_least("k", k, 1))

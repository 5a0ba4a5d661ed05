"""`RAGDatasetBase`: generates triplets from the corpus that a subclass loads."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

from midstep.core.errors import ConfigError, DatasetError
from midstep.data.rag import triplet_generators
from midstep.data.rag.judges import Judge, LabelProgress, label_triplets
from midstep.data.rag.triplet_generators import Criterion
from midstep.data.rag.triplets import Corpus, Triplet
from midstep.data.rag.vector_stores import (
    PAGE,
    ExactStore,
    StoreRecall,
    VectorStore,
    copy_to_exact,
    store_recall,
)

SampleKind = Literal["positive", "contrastive", "similar"]


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
        """Every pair of candidates of a question, unlabelled."""
        return triplet_generators.positive_pairs(self.corpus, self.store, criterion=criterion, k=k)

    def contrastive(
        self, k: int = 5, criterion: Criterion = "embedding_similarity"
    ) -> Iterator[Triplet]:
        """Every relevant source of a question with k wrong ones, labelled."""
        return triplet_generators.contrastive(
            self.corpus, self.store, criterion=criterion, k=k, seed=self.seed
        )

    def similar(self, k: int = 5) -> Iterator[Triplet]:
        """Every relevant source of a question with the k sources nearest to it, unlabelled."""
        return triplet_generators.similar(self.corpus, self.store, k=k)

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

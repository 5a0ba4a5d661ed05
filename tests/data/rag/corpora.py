"""Small corpora for tests."""

from __future__ import annotations

import numpy as np

from midstep.data import Corpus, ExactStore


def make_corpus(
    questions: int = 4, sources: int = 12, relevant: int = 3, *, seed: int = 0
) -> tuple[Corpus, ExactStore]:
    """Random embeddings; every question with so many relevant sources."""
    chance = np.random.default_rng(seed)
    names = [f"s{row}" for row in range(sources)]
    texts = {name: f"text of {name}" for name in names}
    store = ExactStore()
    store.add(names, chance.standard_normal((sources, 6)), list(texts.values()))
    corpus = Corpus(
        questions={f"q{row}": f"question {row}" for row in range(questions)},
        question_embeddings=chance.standard_normal((questions, 6)),
        sources=texts,
        relevant={
            f"q{row}": tuple(chance.choice(names, size=relevant, replace=False).tolist())
            for row in range(questions)
        },
    )
    return corpus, store

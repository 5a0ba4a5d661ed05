"""Questions, sources, and which source answers which question."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from midstep.core.errors import DatasetError
from midstep.data.build.distinct import normalised

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Corpus"]


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """What triplets are generated from."""

    questions: Mapping[str, str]
    """Texts by id."""
    question_embeddings: NDArray[Any]
    """[Q, D], in the order of `questions`."""
    sources: Mapping[str, str]
    """Texts by id; their embeddings are in the store."""
    relevant: Mapping[str, Sequence[str]]
    """Sources that answer a question, by its id."""

    def __post_init__(self) -> None:
        problems = [
            f"relevant names the question {question!r}, which is not there"
            for question in self.relevant
            if question not in self.questions
        ]
        for question, names in self.relevant.items():
            if len(set(names)) != len(names):
                problems.append(f"relevant[{question!r}] names a source twice")
            problems += [
                f"relevant[{question!r}] names the source {name!r}, which is not there"
                for name in names
                if name not in self.sources
            ]
        shape = np.shape(self.question_embeddings)
        if len(shape) != 2 or shape[0] != len(self.questions):
            problems.append(
                f"question_embeddings has the shape {list(shape)}, there are "
                f"{len(self.questions)} questions"
            )
        if problems:
            raise DatasetError("the corpus is wrong", problems[:20])

    def answers(self, question: str) -> tuple[str, ...]:
        """The sources relevant to a question."""
        return tuple(self.relevant.get(question, ()))

    def no_negatives(self, question: str) -> set[str]:
        """Sources that must never stand as wrong: the relevant ones and all with the same text."""
        return {
            twin
            for name in self.answers(question)
            for twin in self._same_text[normalised(self.sources[name])]
        }

    @cached_property
    def _same_text(self) -> Mapping[str, list[str]]:
        groups = defaultdict(list)
        for name, text in self.sources.items():
            groups[normalised(text)].append(name)
        return groups

"""Triplets (a question, two sources, a label), their file, and the corpus they come from."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from midstep.core import strict_json
from midstep.core.errors import DatasetError
from midstep.core.files import storage
from midstep.data.text.normalise import normalise_text
from midstep.data.text.text_files import parse_json, read_lines

UNLABELLED, BOTH_IRRELEVANT, FIRST_BETTER, SECOND_BETTER = -1, 0, 1, 2
LABELS = (UNLABELLED, BOTH_IRRELEVANT, FIRST_BETTER, SECOND_BETTER)


class Triplet(NamedTuple):
    """A question and two sources, by their ids.

    >>> Triplet("q7", "s1", "s2").label
    -1
    """

    question_id: str
    source_id_1: str
    source_id_2: str
    label: int = UNLABELLED
    """−1 unlabelled, 0 both irrelevant, 1 the first is better, 2 the second is."""


def write_triplets(path: str | Path, triplets: Iterable[Triplet]) -> int:
    """Write triplets as JSON Lines, and return how many; the file appears when it is complete.

    >>> write_triplets("some.jsonl", [Triplet("q", "a", "b", 1)]), list(read_triplets("some.jsonl"))
    (1, [Triplet(question_id='q', source_id_1='a', source_id_2='b', label=1)])
    """
    count = 0
    with storage.replacement(path) as file:
        for count, triplet in enumerate(triplets, start=1):
            file.write(triplet_line(parse_triplet(triplet, str(count))))
    return count


def triplet_line(triplet: Triplet) -> bytes:
    """A triplet as one line of the file."""
    return f"{strict_json.dumps(list(triplet))}\n".encode()


def read_triplets(path: str | Path) -> Iterator[Triplet]:
    """The triplets of a file, one at a time."""
    for number, line in enumerate(read_lines(Path(path)), start=1):
        yield parse_line(line, f"{Path(path).name}:{number}")


def parse_line(line: bytes, where: str) -> Triplet:
    """The triplet in a line of the file; `where` names the line in an error."""
    return parse_triplet(parse_json(line, where), where)


def parse_triplet(value: Any, where: str) -> Triplet:
    """The triplet in a parsed line, or a `DatasetError` that says what is wrong and where."""
    has_four = isinstance(value, list | tuple) and len(value) == 4
    if not has_four or not all(isinstance(each, str) for each in value[:3]):
        raise DatasetError(f"triplet {where} is {value!r}, expected three ids and a label")
    if isinstance(value[3], bool) or value[3] not in LABELS:
        raise DatasetError(f"the label of triplet {where} is {value[3]!r}, expected -1, 0, 1 or 2")
    if value[1] == value[2]:
        raise DatasetError(f"triplet {where} names the source {value[1]!r} twice")
    return Triplet(*value)


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """Questions and sources, and which source answers which question."""

    questions: Mapping[str, str]
    """Texts by id."""
    question_embeddings: NDArray[Any]
    """[Q, D], in the order of `questions`."""
    sources: Mapping[str, str]
    """Texts by id; a vector store has their embeddings."""
    relevant: Mapping[str, Sequence[str]]
    """The sources that answer a question, by the question's id."""

    def __post_init__(self) -> None:
        problems = [
            f"relevant names the question {question!r}, which does not exist"
            for question in self.relevant
            if question not in self.questions
        ]
        for question, names in self.relevant.items():
            if len(set(names)) != len(names):
                problems.append(f"relevant[{question!r}] names a source twice")
            problems += [
                f"relevant[{question!r}] names the source {name!r}, which does not exist"
                for name in names
                if name not in self.sources
            ]
        shape = np.shape(self.question_embeddings)
        if len(shape) != 2 or shape[0] != len(self.questions):
            problems.append(
                f"question_embeddings has the shape {list(shape)}, there are "
                f"{len(self.questions)} questions"
            )
        DatasetError.raise_if("the corpus is wrong", problems[:20])

    def answers(self, question: str) -> tuple[str, ...]:
        """The sources relevant to a question."""
        return tuple(self.relevant.get(question, ()))

    def never_negative(self, question: str) -> set[str]:
        """Sources that must not become negatives: the relevant ones, and others with their text."""
        return {
            same
            for name in self.answers(question)
            for same in self._same_text[normalise_text(self.sources[name])]
        }

    @cached_property
    def _same_text(self) -> Mapping[str, list[str]]:
        groups = defaultdict(list)
        for name, text in self.sources.items():
            groups[normalise_text(text)].append(name)
        return groups

"""Labels from a judge: a function that says which of two sources answers a question better.

Labels are appended to a file batch by batch. After a kill, labelling continues with the first
triplet that is not in the file; the judge never sees a triplet again that the file has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np

from midstep.core.errors import DatasetError
from midstep.core.field_checks import at_least, require
from midstep.core.files.storage import AppendFile
from midstep.data.rag.triplets import (
    BOTH_IRRELEVANT,
    FIRST_BETTER,
    LABELS,
    SECOND_BETTER,
    UNLABELLED,
    Corpus,
    Triplet,
    parse_line,
    triplet_line,
)
from midstep.data.rag.vector_stores import VectorStore


class JudgeCase(NamedTuple):
    """What a judge gets: a triplet and its texts."""

    triplet: Triplet
    question: str
    source_1: str
    source_2: str


class Judge(Protocol):
    """Says for each case which source answers the question better."""

    def __call__(self, cases: Sequence[JudgeCase]) -> Sequence[int]:
        """One label for each case: 0, 1, 2, or −1 if it cannot decide."""


@dataclass(frozen=True, kw_only=True)
class LabelProgress:
    """How far labelling is."""

    labelled: int
    """Triplets in the file, including those of earlier runs."""
    asked: int
    """Triplets that the judge got in this run."""


class SimilarityJudge:
    """Prefers the source whose embedding is nearer to the question; neither, if both are far.

    Args:
        corpus: the corpus of the triplets.
        store: holds the sources.
        threshold: the smallest cosine at which a source counts as relevant.
    """

    def __init__(self, corpus: Corpus, store: VectorStore, *, threshold: float = 0.2) -> None:
        self._store, self._threshold = store, threshold
        self._rows = {name: row for row, name in enumerate(corpus.questions)}
        self._questions = np.asarray(corpus.question_embeddings, dtype=np.float64)

    def __call__(self, cases: Sequence[JudgeCase]) -> list[int]:
        """One label for each case."""
        wanted = {name for case in cases for name in case.triplet[1:3]}
        records = self._store.get(sorted(wanted))
        labels = []
        for case in cases:
            question = self._questions[self._rows[case.triplet.question_id]]
            length = float(np.linalg.norm(question)) or 1.0
            first, second = (
                float(records[name].embedding @ question) / length for name in case.triplet[1:3]
            )
            if max(first, second) < self._threshold:
                labels.append(BOTH_IRRELEVANT)
            else:
                labels.append(FIRST_BETTER if first >= second else SECOND_BETTER)
        return labels


def label_triplets(
    path: str | Path,
    triplets: Iterable[Triplet],
    corpus: Corpus,
    judge: Judge,
    *,
    batch_size: int = 64,
    progress: Callable[[LabelProgress], None] | None = None,
) -> LabelProgress:
    """Let a judge label the unlabelled triplets, and append all triplets to a file.

    Called again with the same triplets after a kill, it continues after the last complete line.

    Args:
        path: the file of labelled triplets, JSON Lines; read it with `read_triplets`.
        triplets: in a fixed order; triplets with a label keep it.
        corpus: has the texts.
        judge: labels a batch of cases.
        batch_size: cases that the judge gets together.
        progress: called after every batch.

    Raises:
        DatasetError: if the judge returns something other than labels, or if the file holds
            other triplets than these.
    """
    require(at_least("batch_size", batch_size, 1))
    source = iter(triplets)
    with closing(AppendFile(path)) as file:
        done, asked = _resume(file, source), 0
        while batch := list(islice(source, batch_size)):
            labelled = _judge_batch(batch, corpus, judge)
            file.append(b"".join(map(triplet_line, labelled)))
            file.sync()
            done += len(batch)
            asked += sum(each.label == UNLABELLED for each in batch)
            if progress is not None:
                progress(LabelProgress(labelled=done, asked=asked))
    return LabelProgress(labelled=done, asked=asked)


def _resume(file: AppendFile, source: Iterator[Triplet]) -> int:
    """Skip the triplets that the file has, cut off an incomplete last line; return how many."""
    done = complete_bytes = 0
    with file.path.open("rb") as lines:
        for line in lines:
            if not line.endswith(b"\n"):
                break  # a kill during the write
            expected = next(source, None)
            stored = parse_line(line, f"{file.path}:{done + 1}")
            if expected is None or stored[:3] != expected[:3]:
                raise DatasetError(
                    f"{file.path}:{done + 1} holds {list(stored)}, these triplets have "
                    f"{None if expected is None else list(expected)} there; label them into "
                    "another file"
                )
            done, complete_bytes = done + 1, complete_bytes + len(line)
    if complete_bytes != file.size:
        file.truncate(complete_bytes)
    return done


def _judge_batch(batch: Sequence[Triplet], corpus: Corpus, judge: Judge) -> list[Triplet]:
    unlabelled = [row for row, each in enumerate(batch) if each.label == UNLABELLED]
    labels = list(judge([_case(batch[row], corpus) for row in unlabelled])) if unlabelled else []
    if len(labels) != len(unlabelled):
        raise DatasetError(f"the judge gave {len(labels)} labels for {len(unlabelled)} cases")
    labelled = list(batch)
    for row, label in zip(unlabelled, labels, strict=True):
        if isinstance(label, bool) or label not in LABELS:
            raise DatasetError(
                f"the judge gave the label {label!r} for {batch[row]}, expected -1, 0, 1 or 2"
            )
        labelled[row] = batch[row]._replace(label=int(label))
    return labelled


def _case(triplet: Triplet, corpus: Corpus) -> JudgeCase:
    question, first, second = triplet[:3]
    return JudgeCase(
        triplet, corpus.questions[question], corpus.sources[first], corpus.sources[second]
    )

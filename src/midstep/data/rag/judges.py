"""Labels by a judge: any function of questions and sources, asked in batches that can be resumed.

Answers are appended to a file as they come, batch by batch. A labelling that was killed goes on
with the first triplet that has no answer yet; what was answered is not asked again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np

from midstep.core import strict_json
from midstep.core.errors import ConfigError, DatasetError, FormatError
from midstep.core.files.storage import AppendFile
from midstep.data.rag.triplets import (
    BOTH_IRRELEVANT,
    FIRST_BETTER,
    LABELS,
    SECOND_BETTER,
    UNLABELLED,
    Corpus,
    Triplet,
    parse_triplet,
)
from midstep.data.rag.vector_stores import VectorStore


class JudgeCase(NamedTuple):
    """What a judge is shown: a triplet, with its texts."""

    triplet: Triplet
    question: str
    source_1: str
    source_2: str


class Judge(Protocol):
    """Says for each case which source answers the question better."""

    def __call__(self, cases: Sequence[JudgeCase]) -> Sequence[int]:
        """One label a case: 0, 1, 2, or −1 where it cannot say."""
        ...


@dataclass(frozen=True, kw_only=True)
class LabelProgress:
    """How far a labelling has come."""

    labelled: int
    """Triplets with an answer, those of earlier runs included."""
    asked: int
    """Triplets the judge was asked about in this run."""


class SimilarityJudge:
    """The source whose embedding is nearer to the question; neither, if both are far.

    Args:
        corpus: of the triplets.
        store: of the sources.
        threshold: the least cosine at which a source counts as relevant.
    """

    def __init__(self, corpus: Corpus, store: VectorStore, *, threshold: float = 0.2) -> None:
        self._store, self._threshold = store, threshold
        self._rows = {name: row for row, name in enumerate(corpus.questions)}
        self._questions = np.asarray(corpus.question_embeddings, dtype=np.float64)

    def __call__(self, cases: Sequence[JudgeCase]) -> list[int]:
        """One label a case."""
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
    """Have the unlabelled triplets judged and append all of them, labelled, to a file.

    Started again with the same triplets after a kill, it goes on behind the last whole line.

    Args:
        path: the file of labelled triplets, JSON Lines; read it with `read_triplets`.
        triplets: in a fixed order; those with a label already keep it.
        corpus: for the texts.
        judge: any callable of cases.
        batch_size: cases the judge is shown together.
        progress: told after every batch.

    Raises:
        DatasetError: if the judge answers with something else than labels, or if the file holds
            other triplets than these.
    """
    if batch_size < 1:
        raise ConfigError(f"batch_size must be at least 1, got {batch_size}")
    source = iter(triplets)
    with closing(AppendFile(path)) as file:
        done, asked = _resume(file, source), 0
        while batch := list(islice(source, batch_size)):
            answers = _judge_batch(batch, corpus, judge)
            lines = "".join(strict_json.dumps(list(each)) + "\n" for each in answers)
            file.append(lines.encode())
            file.sync()
            done += len(batch)
            asked += sum(each.label == UNLABELLED for each in batch)
            if progress is not None:
                progress(LabelProgress(labelled=done, asked=asked))
    return LabelProgress(labelled=done, asked=asked)


def _resume(file: AppendFile, source: Iterator[Triplet]) -> int:
    """Move `source` behind what the file holds already, whose torn end is cut off."""
    done = whole = 0
    with file.path.open("rb") as lines:
        for line in lines:
            if not line.endswith(b"\n"):
                break
            expected = next(source, None)
            stored = _parse_line(line, f"{file.path}:{done + 1}")
            if expected is None or stored[:3] != expected[:3]:
                raise DatasetError(
                    f"{file.path}:{done + 1} holds {list(stored)}, these triplets have "
                    f"{None if expected is None else list(expected)} there; label them into "
                    "another file"
                )
            done, whole = done + 1, whole + len(line)
    if whole != file.size:
        file.truncate(whole)
    return done


def _parse_line(line: bytes, where: str) -> Triplet:
    try:
        return parse_triplet(strict_json.loads(line), where)
    except FormatError as error:
        raise DatasetError(f"{where} is {error}") from None


def _judge_batch(batch: Sequence[Triplet], corpus: Corpus, judge: Judge) -> list[Triplet]:
    open_at = [at for at, each in enumerate(batch) if each.label == UNLABELLED]
    labels = list(judge([_case(batch[at], corpus) for at in open_at])) if open_at else []
    if len(labels) != len(open_at):
        raise DatasetError(f"the judge gave {len(labels)} labels for {len(open_at)} cases")
    labelled = list(batch)
    for at, label in zip(open_at, labels, strict=True):
        if isinstance(label, bool) or label not in LABELS:
            raise DatasetError(
                f"the judge gave the label {label!r} for {batch[at]}, expected -1, 0, 1 or 2"
            )
        labelled[at] = batch[at]._replace(label=int(label))
    return labelled


def _case(triplet: Triplet, corpus: Corpus) -> JudgeCase:
    question, first, second = triplet[:3]
    return JudgeCase(
        triplet, corpus.questions[question], corpus.sources[first], corpus.sources[second]
    )

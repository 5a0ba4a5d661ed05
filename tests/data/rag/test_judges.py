"""Labelling by a judge: resumable, checked, the same file whatever interrupts it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from midstep.core.errors import ConfigError, DatasetError
from midstep.data import (
    Corpus,
    ExactStore,
    PassageDataset,
    SimilarityJudge,
    Triplet,
    label_triplets,
    read_triplets,
)
from midstep.data.rag.judges import JudgeCase, LabelProgress
from tests.data.rag.corpora import make_corpus

CORPUS, STORE = make_corpus(questions=3, sources=8, relevant=4)
TRIPLETS = [
    Triplet(question, first, second, 1 if row % 5 == 4 else -1)
    for row, (question, first, second) in enumerate(
        (question, names[a], names[b])
        for question, names in CORPUS.relevant.items()
        for a in range(4)
        for b in range(a)
    )
]


class LengthJudge:
    """Deterministic; remembers what it was shown and gives up after so many batches."""

    def __init__(self, gives_up_after: int = 10**6) -> None:
        self.left, self.seen = gives_up_after, list[JudgeCase]()

    def __call__(self, cases: Sequence[JudgeCase]) -> list[int]:
        if not self.left:
            raise KeyboardInterrupt
        self.left -= 1
        self.seen.extend(cases)
        return [len(case.source_1 + case.triplet.source_id_2) % 3 for case in cases]


def labelled(path: Path, judge: LengthJudge, size: int = 4) -> LabelProgress:
    return label_triplets(path, TRIPLETS, CORPUS, judge, batch_size=size)


def test_judge_sees_the_texts_of_the_unlabelled_only(tmp_path: Path) -> None:
    judge = LengthJudge()
    done = labelled(tmp_path / "made.jsonl", judge)
    unlabelled = [each for each in TRIPLETS if each.label == -1]
    assert [case.triplet for case in judge.seen] == unlabelled
    first = judge.seen[0]
    assert first.question == "question 0"
    assert first.source_1 == f"text of {first.triplet.source_id_1}"
    assert done == LabelProgress(labelled=18, asked=len(unlabelled))
    made = list(read_triplets(tmp_path / "made.jsonl"))
    assert [each[:3] for each in made] == [each[:3] for each in TRIPLETS]
    assert all(each.label in (0, 1, 2) for each in made)


@pytest.mark.parametrize("batches", range(5))
def test_interrupted_labelling_goes_on_and_asks_nothing_twice(tmp_path: Path, batches: int) -> None:
    whole = tmp_path / "whole.jsonl"
    labelled(whole, LengthJudge())
    path, first, second = tmp_path / "made.jsonl", LengthJudge(batches), LengthJudge()
    with pytest.raises(KeyboardInterrupt):
        labelled(path, first)
    labelled(path, second, size=3)  # another size of batches makes no difference
    assert path.read_bytes() == whole.read_bytes()
    shown = [case.triplet for case in first.seen + second.seen]
    assert len(shown) == len(set(shown)) == sum(each.label == -1 for each in TRIPLETS)


def test_torn_end_is_cut_at_every_byte(tmp_path: Path) -> None:
    path = tmp_path / "made.jsonl"
    labelled(path, LengthJudge())
    whole = path.read_bytes()
    for length in range(len(whole) - 60, len(whole)):
        path.write_bytes(whole[:length])
        labelled(path, LengthJudge())
        assert path.read_bytes() == whole


def test_finished_labelling_asks_nothing(tmp_path: Path) -> None:
    labelled(tmp_path / "made.jsonl", LengthJudge())
    assert labelled(tmp_path / "made.jsonl", LengthJudge(0)) == LabelProgress(labelled=18, asked=0)


def test_progress_is_told_after_every_batch(tmp_path: Path) -> None:
    told: list[LabelProgress] = []
    label_triplets(
        tmp_path / "made.jsonl",
        TRIPLETS,
        CORPUS,
        LengthJudge(),
        batch_size=8,
        progress=told.append,
    )
    assert [each.labelled for each in told] == [8, 16, 18]


def test_file_of_other_triplets_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "made.jsonl"
    path.write_text('["q0","a","b",1]\n')
    with pytest.raises(DatasetError, match="label them into another file"):
        labelled(path, LengthJudge())
    assert path.read_text() == '["q0","a","b",1]\n'


@pytest.mark.parametrize("line", ["{}", "[", '["q0","a","a",1]'])
def test_damaged_line_is_refused_with_its_place(tmp_path: Path, line: str) -> None:
    (tmp_path / "made.jsonl").write_text(f"{line}\n")
    with pytest.raises(DatasetError, match=r"made\.jsonl:1"):
        labelled(tmp_path / "made.jsonl", LengthJudge())


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ([1], "gave 1 labels for 4 cases"),
        ([1, 2, 0, 7], "label 7"),
        ([1, 2, 0, True], "label True"),
    ],
)
def test_answers_that_are_no_labels_are_refused(tmp_path: Path, answer, told: str) -> None:
    with pytest.raises(DatasetError, match=told):
        label_triplets(
            tmp_path / "made.jsonl", TRIPLETS, CORPUS, lambda cases: answer, batch_size=4
        )
    assert (tmp_path / "made.jsonl").read_bytes() == b""


def test_empty_batches_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="batch_size must be a whole number of at least 1"):
        labelled(tmp_path / "made.jsonl", LengthJudge(), size=0)


def test_similarity_judge_takes_the_nearer_source_or_neither(tmp_path: Path) -> None:
    store = ExactStore()
    store.add(["near", "far", "off", "away"], np.array([[1, 0.1], [1, 1], [0, 1], [-1, 0]]))
    corpus = Corpus(
        questions={"q": "?"},
        question_embeddings=np.array([[5.0, 0.0]]),
        sources=dict.fromkeys(("near", "far", "off", "away"), "text"),
        relevant={},
    )
    made = [Triplet("q", *pair) for pair in (("far", "near"), ("near", "far"), ("off", "away"))]
    judge = SimilarityJudge(corpus, store, threshold=0.5)
    label_triplets(tmp_path / "made.jsonl", made, corpus, judge)
    assert [each.label for each in read_triplets(tmp_path / "made.jsonl")] == [2, 1, 0]


def test_dataset_labels_its_own_samples(tmp_path: Path) -> None:
    pairs = [("is snow cold", "Snow is cold ice."), ("is snow cold", "A dog barks.")]
    dataset = PassageDataset(pairs)
    judge = SimilarityJudge(dataset.corpus, dataset.store)
    assert dataset.label(tmp_path / "made.jsonl", judge).asked == 1
    assert list(read_triplets(tmp_path / "made.jsonl")) == [Triplet("q0", "s0", "s1", 1)]

"""Triplets: their number, their labels, what never happens, and their file."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from math import comb
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from midstep.core.errors import ConfigError, DatasetError
from midstep.data import (
    Corpus,
    ExactStore,
    PassageDataset,
    RAGDatasetBase,
    Triplet,
    read_triplets,
    write_triplets,
)
from midstep.data.rag import rag_dataset
from midstep.data.text.encoders import CallableEncoder, HashingEncoder
from tests.data.rag.corpora import make_corpus


class Fixed(RAGDatasetBase):
    """A corpus that is there already."""

    def __init__(self, corpus: Corpus, store: ExactStore, **settings: Any) -> None:
        super().__init__(store, **settings)
        self._given = corpus

    def load(self) -> Corpus:
        return self._given


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float(a @ b) / float(np.sqrt((a @ a) * (b @ b)))


def right_and_wrong(triplet: Triplet) -> tuple[str, str]:
    ids = triplet[1:3]
    return (ids[0], ids[1]) if triplet.label == 1 else (ids[1], ids[0])


# -- numbers and labels ----------------------------------------------------------------------------


def test_positive_pairs_are_every_two_relevant_sources() -> None:
    corpus, store = make_corpus(questions=4, relevant=3)
    made = list(Fixed(corpus, store).generate_samples("positive"))
    assert len(made) == 4 * comb(3, 2)
    assert made[:3] == [Triplet("q0", *pair) for pair in combinations(corpus.answers("q0"), 2)]


def test_other_criteria_change_the_candidates() -> None:
    corpus, store = make_corpus(questions=2, sources=6)
    dataset = Fixed(corpus, store)
    assert len(list(dataset.positive_pairs("all_existing"))) == 2 * comb(6, 2)
    near = list(dataset.positive_pairs("embedding_similarity", k=4))
    assert len(near) == 2 * comb(4, 2)
    best = [hit.id for hit in store.search(corpus.question_embeddings[:1], 4)[0]]
    assert {name for triplet in near[:6] for name in triplet[1:3]} == set(best)


@pytest.mark.parametrize("criterion", rag_dataset.CRITERIA)
def test_contrastive_pairs_every_relevant_source_with_k_wrong_ones(criterion: Any) -> None:
    corpus, store = make_corpus(questions=5, sources=20, relevant=3)
    made = list(Fixed(corpus, store).contrastive(2, criterion))
    assert len(made) == 5 * 3 * 2
    for question in corpus.questions:
        pairs = {right_and_wrong(each) for each in made if each.question_id == question}
        wrong = {pair[1] for pair in pairs}
        assert pairs == {(right, each) for right in corpus.answers(question) for each in wrong}
        assert len(wrong) == 2
        assert not wrong & set(corpus.answers(question))


def test_wrong_sources_by_similarity_are_the_nearest_that_are_not_relevant() -> None:
    corpus, store = make_corpus(sources=15)
    rows = {name: store.get([name])[name].embedding for name in corpus.sources}
    for row, question in enumerate(corpus.questions):
        others = [name for name in corpus.sources if name not in corpus.answers(question)]
        others.sort(key=lambda name: -cosine(rows[name], corpus.question_embeddings[row]))
        made = Fixed(corpus, store).contrastive(3)
        wrong = {right_and_wrong(each)[1] for each in made if each.question_id == question}
        assert wrong == set(others[:3])


def test_wrong_sources_of_criterion_relevant_answer_other_questions() -> None:
    corpus, store = make_corpus(questions=3, sources=40, relevant=2)
    answering = {name for names in corpus.relevant.values() for name in names}
    made = list(Fixed(corpus, store).contrastive(2, "relevant"))
    assert made
    assert {right_and_wrong(each)[1] for each in made} <= answering


def test_better_source_stands_first_about_half_of_the_time() -> None:
    corpus, store = make_corpus(questions=100, sources=60, relevant=2)
    labels = [each.label for each in Fixed(corpus, store).contrastive(2)]
    assert set(labels) == {1, 2}
    assert 0.4 < labels.count(1) / len(labels) < 0.6


def test_similar_pairs_a_relevant_source_with_its_nearest() -> None:
    corpus, store = make_corpus(questions=3, sources=15, relevant=2)
    made = list(Fixed(corpus, store).generate_samples("similar", k=4))
    assert len(made) == 3 * 2 * 4
    for question, first, second, label in made:
        assert label == -1
        assert first in corpus.answers(question)
        assert second not in corpus.answers(question)
    rows = {name: store.get([name])[name].embedding for name in corpus.sources}
    question, first = made[0][:2]
    others = [name for name in corpus.sources if name not in corpus.answers(question)]
    others.sort(key=lambda name: -cosine(rows[name], rows[first]))
    assert [each.source_id_2 for each in made[:4]] == others[:4]


@pytest.mark.parametrize("kind", ["positive", "contrastive", "similar"])
def test_samples_are_the_same_every_time_whatever_the_blocks(
    kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus, store = make_corpus(questions=7, sources=25)
    first = list(Fixed(corpus, store, seed=3).generate_samples(kind))
    monkeypatch.setattr(rag_dataset, "BLOCK", 2)
    assert list(Fixed(corpus, store, seed=3).generate_samples(kind)) == first


def test_questions_do_not_change_one_anothers_samples() -> None:
    corpus, store = make_corpus(questions=6, sources=30)
    fewer = replace(
        corpus,
        questions={"q4": "question 4"},
        question_embeddings=corpus.question_embeddings[4:5],
        relevant={"q4": corpus.answers("q4")},
    )
    all_made = list(Fixed(corpus, store).contrastive(3, "all_existing"))
    alone = list(Fixed(fewer, store).contrastive(3, "all_existing"))
    assert alone == [each for each in all_made if each.question_id == "q4"]


def test_another_seed_draws_other_negatives() -> None:
    corpus, store = make_corpus(questions=5, sources=40)
    made = [set(Fixed(corpus, store, seed=seed).contrastive(4, "all_existing")) for seed in (0, 1)]
    assert made[0] != made[1]


# -- what never happens ----------------------------------------------------------------------------

texts = st.lists(st.sampled_from(["a", "A ", "b", "c", "d", "e e", "E  E", "f"]), max_size=3)


@given(answers=st.lists(texts, min_size=1, max_size=5), seed=st.integers(0, 9))
@settings(max_examples=60, deadline=None)
def test_no_source_with_the_text_of_a_relevant_one_is_ever_wrong(answers, seed: int) -> None:
    every = ["a", "A ", "b", "c", "d", "e e", "E  E", "f", "g"]
    names = {f"s{row}": text for row, text in enumerate(every)}
    ids = {text: name for name, text in names.items()}
    chance = np.random.default_rng(seed)
    store = ExactStore()
    store.add(list(names), chance.standard_normal((len(every), 3)), every)
    corpus = Corpus(
        questions={f"q{row}": "?" for row in range(len(answers))},
        question_embeddings=chance.standard_normal((len(answers), 3)),
        sources=names,
        relevant={
            f"q{row}": [ids[text] for text in dict.fromkeys(each)]
            for row, each in enumerate(answers)
        },
    )
    dataset = Fixed(corpus, store, seed=seed)
    for criterion in rag_dataset.CRITERIA:
        made = list(dataset.contrastive(3, criterion))
        assert len(set(made)) == len(made)
        for triplet in made:
            right, wrong = right_and_wrong(triplet)
            relevant = {" ".join(names[r].split()).casefold() for r in corpus.answers(triplet[0])}
            assert right in corpus.answers(triplet[0])
            assert " ".join(names[wrong].split()).casefold() not in relevant


def test_store_that_gives_fewer_hits_is_asked_again_for_more() -> None:
    class Meagre(ExactStore):
        exact = False

        def search(self, queries: Any, k: int) -> Any:
            return [hits[: max(1, k // 2)] for hits in super().search(queries, k)]

    corpus, exact = make_corpus(questions=3, sources=40, relevant=2)
    meagre = Meagre()
    records = exact.get(list(corpus.sources))
    meagre.add(list(records), np.stack([record.embedding for record in records.values()]))
    assert list(Fixed(corpus, meagre).contrastive(6)) == list(Fixed(corpus, exact).contrastive(6))


# -- validation ------------------------------------------------------------------------------------


def test_validation_counts_and_names_questions_without_answer() -> None:
    corpus, store = make_corpus(questions=2, sources=5, relevant=2)
    lonely = Corpus(
        questions={**corpus.questions, "q9": "?"},
        question_embeddings=np.ones((3, 6)),
        sources=corpus.sources,
        relevant=corpus.relevant,
    )
    report = Fixed(lonely, store).validate()
    assert (report.questions, report.sources, report.relevant_pairs) == (3, 5, 4)
    assert report.unanswered == ("q9",)
    assert report.recall is None  # the store is exact


def test_validation_tells_all_that_is_wrong() -> None:
    corpus, store = make_corpus(questions=1, sources=3, relevant=1)
    changed = Corpus(
        questions={"q0": " "},
        question_embeddings=np.ones((1, 6)),
        sources={**corpus.sources, "s1": "another"},
        relevant={},
    )
    with pytest.raises(DatasetError) as caught:
        Fixed(changed, store).validate()
    assert caught.value.problems == (
        "question 'q0' has no text",
        "source 's1' has another text in the store",
    )
    with pytest.raises(DatasetError, match="the store has 0 records for 3 sources"):
        Fixed(corpus, ExactStore()).validate()


def test_approximate_store_reports_its_recall() -> None:
    class Approximate(ExactStore):
        exact = False

    corpus, exact = make_corpus()
    store, records = Approximate(), exact.get(list(corpus.sources))
    rows = np.stack([record.embedding for record in records.values()])
    store.add(list(records), rows, [record.text for record in records.values()])
    recall = Fixed(corpus, store).validate(k=3).recall
    assert recall is not None
    assert (recall.mean, recall.k, recall.queries) == (1, 3, 4)


def test_corpus_that_names_what_is_not_there_is_refused() -> None:
    with pytest.raises(DatasetError) as caught:
        Corpus(
            questions={"q": "?"},
            question_embeddings=np.ones((2, 3)),
            sources={"s": "text"},
            relevant={"q": ["s", "s", "t"], "p": []},
        )
    assert caught.value.problems == (
        "relevant names the question 'p', which does not exist",
        "relevant['q'] names a source twice",
        "relevant['q'] names the source 't', which does not exist",
        "question_embeddings has the shape [2, 3], there are 1 questions",
    )


def test_wrong_settings_are_refused() -> None:
    dataset = Fixed(*make_corpus())
    with pytest.raises(ConfigError, match="use positive, contrastive or similar"):
        dataset.generate_samples("negative")  # type: ignore[arg-type]
    with pytest.raises(
        ConfigError, match="similar samples need the criterion embedding_similarity"
    ):
        dataset.generate_samples("similar", criterion="relevant")
    with pytest.raises(ConfigError, match="must be one of relevant, all_existing"):
        next(dataset.contrastive(1, "random"))  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="k must be a whole number of at least 1"):
        next(dataset.contrastive(0))


# -- passages --------------------------------------------------------------------------------------


def test_passages_are_read_from_json_lines(tmp_path: Path) -> None:
    file = tmp_path / "pairs.jsonl"
    file.write_text(
        '{"question": "is snow cold", "passage": "Snow is ice."}\n'
        '{"question": "Is snow  cold", "passage": "Ice is cold."}\n'
        '{"question": "is fire hot", "passage": "Fire burns."}\n'
    )
    dataset = PassageDataset(file)
    assert dataset.corpus.relevant == {"q0": ("s0", "s1"), "q1": ("s2",)}
    assert list(dataset.generate_samples("positive")) == [Triplet("q0", "s0", "s1")]
    assert len(PassageDataset(file, limit=1).corpus.sources) == 1


@pytest.mark.parametrize("line", ["[1]", '{"question": "a"}', '{"question": "a", "passage": 3}'])
def test_line_without_texts_is_refused_with_its_number(tmp_path: Path, line: str) -> None:
    file = tmp_path / "pairs.jsonl"
    file.write_text(f'{{"question": "a", "passage": "b"}}\n{line}\n')
    with pytest.raises(DatasetError, match=r"pairs\.jsonl:2 has no texts 'question'"):
        PassageDataset(file)
    file.write_text("{")
    with pytest.raises(DatasetError, match=r"pairs\.jsonl:1 is not JSON"):
        PassageDataset(file)


def test_only_missing_passages_are_encoded() -> None:
    pairs = [(f"question {row}", f"passage {row}") for row in range(6)]
    store = ExactStore()
    assert PassageDataset(pairs[:4], store=store).validate().sources == 4
    asked: list[str] = []

    class Counting:
        name, dimension = "counting", 384

        def encode(self, texts: Any) -> Any:
            asked.extend(texts)
            return HashingEncoder().encode(texts)

    assert PassageDataset(pairs, store=store, encoder=Counting()).validate().sources == 6
    sample, *missing = [text for text in asked if text.startswith("passage")]
    assert sample == "passage 0"  # is it the encoder that filled the store?
    assert missing == ["passage 4", "passage 5"]


def test_store_of_other_texts_is_refused() -> None:
    store = ExactStore()
    PassageDataset([("a", "b")], store=store).validate()
    with pytest.raises(DatasetError, match="holds another text as 's0': 'b', expected 'c'"):
        PassageDataset([("a", "c")], store=store).validate()


def test_store_of_another_encoder_is_refused() -> None:
    store, pairs = ExactStore(), [("is ice cold", "Ice is frozen water.")]
    PassageDataset(pairs, store=store, encoder=HashingEncoder(64)).load()
    assert PassageDataset(pairs, store=store, encoder=HashingEncoder(64)).validate().sources == 1
    turned = CallableEncoder(lambda texts: -HashingEncoder(64).encode(texts), name="turned")
    for other in (turned, HashingEncoder(32)):
        with pytest.raises(DatasetError, match=f"not of the encoder {other.name}"):
            PassageDataset(pairs, store=store, encoder=other).load()


def test_missing_file_is_told() -> None:
    with pytest.raises(DatasetError, match=r"no\.jsonl does not exist"):
        PassageDataset("no.jsonl")


# -- the file --------------------------------------------------------------------------------------


def test_triplets_survive_their_file(tmp_path: Path) -> None:
    made = [Triplet("q", "a", "b", label) for label in (-1, 0, 1, 2)] + [Triplet("雪\n", '"', "")]
    assert write_triplets(tmp_path / "made.jsonl", iter(made)) == 5
    assert list(read_triplets(tmp_path / "made.jsonl")) == made


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("[", "is not JSON"),
        ('["q","a","b"]', "expected three ids and a label"),
        ('["q","a",1,1]', "expected three ids and a label"),
        ('["q","a","b",3]', "the label of triplet .* is 3"),
        ('["q","a","b",true]', "is True, expected -1, 0, 1 or 2"),
        ('["q","a","a",1]', "names the source 'a' twice"),
    ],
)
def test_damaged_file_is_refused_with_its_line(tmp_path: Path, line: str, told: str) -> None:
    (tmp_path / "made.jsonl").write_text(f'["q","a","b",1]\n{line}\n')
    with pytest.raises(DatasetError, match=told) as caught:
        list(read_triplets(tmp_path / "made.jsonl"))
    assert "made.jsonl:2" in str(caught.value)

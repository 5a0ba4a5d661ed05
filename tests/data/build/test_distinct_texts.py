"""The same text counts once, however it is written."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from midstep.core.errors import DatasetError
from midstep.data.build.distinct_texts import deduplicate
from midstep.data.build.read_table import Rows
from midstep.data.text.normalise import normalise_text


@given(st.text(max_size=40))
@settings(max_examples=300, deadline=None)
def test_normalised_form_is_its_own_normalised_form(text: str) -> None:
    once = normalise_text(text)
    assert normalise_text(once) == once


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Is it TRUE?", "is it true"),
        ("a\u00a0 b\t\nc", "a b c"),
        ("“quoted”.", "quoted"),
        ("ﬁne", "fine"),
        ("zero\u200bwidth", "zerowidth"),
        ("e\u0301tude", "étude"),
    ],
)
def test_ways_of_writing_do_not_count(one: str, other: str) -> None:
    assert normalise_text(one) == normalise_text(other)


@pytest.mark.parametrize(("one", "other"), [("a+b", "a-b"), ("3.5", "35"), ("C++", "C")])
def test_what_says_something_else_stays_apart(one: str, other: str) -> None:
    assert normalise_text(one) != normalise_text(other)


def rows_of(*rows: tuple[str, str, float, list[str]], splits: list[str] | None = None) -> Rows:
    questions, sources, relevance, keywords = (list(column) for column in zip(*rows, strict=True))
    return Rows(
        questions=questions,
        sources=sources,
        relevance=relevance,
        keywords=keywords,
        splits=splits or [""] * len(rows),
    )


def test_pairs_merge_with_the_largest_relevance_and_all_keywords() -> None:
    found = deduplicate(
        rows_of(
            ("Why?", "A.", 0.2, ["x"]),
            ("why", "a", 0.7, ["Y", "X"]),
            ("Why?", "B", 0.0, []),
            ("How?", "B", 1.0, []),
        )
    )
    assert found.questions == ["Why?", "How?"]
    assert found.sources == ["A.", "B"]
    assert found.pair_index.tolist() == [[0, 0], [1, 1]]
    assert found.relevance.tolist() == pytest.approx([0.7, 1.0])
    assert [found.keywords[each] for each in found.keyword_ids[0]] == ["x", "Y"]
    assert found.irrelevant.tolist() == [[0, 1]]
    assert found.dropped_rows == 1
    assert found.positives().tolist() == [[0], [1]]


def test_a_table_of_zeros_has_no_pair() -> None:
    with pytest.raises(DatasetError, match="no row has a relevance above 0"):
        deduplicate(rows_of(("q", "s", 0.0, [])))


def test_a_question_in_two_given_splits_is_refused() -> None:
    rows = rows_of(("Why?", "A", 1, []), ("why", "B", 1, []), splits=["train", "test"])
    with pytest.raises(DatasetError, match="'why' is in test, and before in train"):
        deduplicate(rows)

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from midstep.core.errors import FormatError
from midstep.core.strict_json import dumps, loads, plain

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@settings(deadline=None)
@given(JSON)
def test_what_is_written_is_read_back(value: object) -> None:
    assert loads(dumps(value)) == value


def test_values_json_has_no_word_for_travel_as_strings() -> None:
    made = loads(
        dumps([math.nan, math.inf, -math.inf, torch.tensor([1.0, math.nan]), np.float32(2)])
    )
    assert made == ["NaN", "Infinity", "-Infinity", [1.0, "NaN"], 2.0]


def test_odd_values_are_said_in_words_and_self_references_end() -> None:
    loop: dict[str, object] = {}
    loop["self"] = loop
    assert dumps(loop) == '{"self":"<contains itself>"}'
    twice: list[object] = []
    twice += [twice, twice]
    assert loads(dumps(twice)) == ["<contains itself>"] * 2
    deep: list[object] = []
    for _ in range(100):
        deep = [deep]
    assert "deeper than" in dumps(deep)
    assert plain({1: {3, 2}, "b": b"\xff", "c": 1j}) == {"1": [2, 3], "b": "b'\\xff'", "c": "1j"}
    assert json.loads(dumps("a\ud800b")) == "a?b"


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1, "a": 2}',
        "NaN",
        "[Infinity]",
        "1e999",
        "{",
        "[" * 100_000,
        b"\xff\xfe",
        '{"a" 1}',
        "",
    ],
)
def test_what_is_not_strict_json_is_one_typed_error(text: str | bytes) -> None:
    with pytest.raises(FormatError):
        loads(text)

"""Generated trainings, interrupted and resumed: exact, or the run says it is not; never silent."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.checkers.matrix import assert_not_silent, draw_case

SMALL, LARGE = range(20), range(20, 220)


@pytest.mark.parametrize("numbers", [SMALL, LARGE], ids=["small", "large"])
def test_at_least_half_of_the_generated_trainings_must_be_exact(numbers: range) -> None:
    assert sum(draw_case(number).must_be_exact for number in numbers) >= len(numbers) / 2


@pytest.mark.parametrize("number", SMALL)
def test_a_generated_training_resumes_exactly_or_says_so(number: int, tmp_path: Path) -> None:
    case = draw_case(number)
    outcome = assert_not_silent(case, tmp_path)
    assert outcome == "exact" or not case.must_be_exact


@pytest.mark.soak
@pytest.mark.parametrize("number", LARGE)
def test_of_two_hundred_generated_trainings_none_is_silently_inexact(
    number: int, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    case = draw_case(number)
    outcome = assert_not_silent(case, tmp_path)
    assert outcome == "exact" or not case.must_be_exact
    record_property(
        "generated training", outcome if outcome in ("exact", "refused") else "named inexact"
    )

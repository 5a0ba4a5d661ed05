"""Generated trainings, interrupted and resumed: exact, or the run says it is not; never silent."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.checkers.matrix import assert_not_silent, draw_case

SMALL, LARGE = range(20), range(20, 220)


@pytest.mark.parametrize("number", SMALL)
def test_a_generated_training_resumes_exactly_or_says_so(number: int, tmp_path: Path) -> None:
    assert_not_silent(draw_case(number), tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize("number", LARGE)
def test_of_two_hundred_generated_trainings_none_is_silently_inexact(
    number: int, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    outcome = assert_not_silent(draw_case(number), tmp_path)
    record_property(
        "generated training", outcome if outcome in ("exact", "refused") else "named inexact"
    )

"""Forces, cosines and orders against slow twins written as loops."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from midstep.control.capture.weight_changes import WeightChange
from midstep.core.errors import ControlError
from midstep.server.step_views import cosine_matrix
from midstep.server.step_views.cosine_matrix import (
    CosineMatrix,
    cluster_order,
    similarity,
    unit_rows,
)
from midstep.server.step_views.force_views import judge, row_cosines, split_change

Rows = list[list[float]]


def slow_cosine(a: list[float], b: list[float]) -> float:
    lengths = math.sqrt(math.fsum(x * x for x in a)) * math.sqrt(math.fsum(x * x for x in b))
    return math.fsum(x * y for x, y in zip(a, b, strict=True)) / lengths if lengths else 0.0


def slow_tree(rows: Rows) -> list[set[int]]:
    """The groups of average linkage in the order they form: the nearest pair of all, each time."""
    groups, formed = [[place] for place in range(len(rows))], []
    while len(groups) > 1:
        pairs = [(a, b) for a in range(len(groups)) for b in range(a)]

        def mean(pair: tuple[int, int], groups: list[list[int]] = groups) -> float:
            a, b = groups[pair[0]], groups[pair[1]]
            return math.fsum(slow_cosine(rows[x], rows[y]) for x in a for y in b) / (
                len(a) * len(b)
            )

        a, b = max(pairs, key=mean)
        joined = groups[a] + groups[b]
        groups = [each for place, each in enumerate(groups) if place not in (a, b)] + [joined]
        formed.append(set(joined))
    return formed


def drawn(seed: int, rows: int, inputs: int) -> Rows:
    found: Rows = np.random.default_rng(seed).standard_normal((rows, inputs)).tolist()
    return found


SHAPES = {"seed": st.integers(0, 2**32 - 1), "rows": st.integers(1, 9), "inputs": st.integers(1, 5)}


@given(**SHAPES, cells=st.integers(1, 9), chunk=st.integers(1, 9))
@settings(max_examples=150, deadline=None)
def test_matrix_and_statistics_equal_the_slow_twin(
    seed: int, rows: int, inputs: int, cells: int, chunk: int
) -> None:
    held = drawn(seed, rows, inputs)
    every = [[slow_cosine(a, b) for b in held] for a in held]
    before, cosine_matrix.CHUNK = cosine_matrix.CHUNK, chunk
    try:
        found = similarity(unit_rows(np.array(held)), cells=cells)
    finally:
        cosine_matrix.CHUNK = before
    ends = [*found.starts[1:], rows]
    blocks = [range(first, last) for first, last in zip(found.starts, ends, strict=True)]
    assert [place for block in blocks for place in block] == list(range(rows))
    assert max(map(len, blocks)) - min(map(len, blocks)) <= 1
    for i, a in enumerate(blocks):
        for j, b in enumerate(blocks):
            mean = math.fsum(every[x][y] for x in a for y in b) / (len(a) * len(b))
            assert found.matrix_MM[i, j] == pytest.approx(mean, abs=1e-6)
    _compare_statistics(found.off_diagonal, every)


def _compare_statistics(found: cosine_matrix.OffDiagonal, every: Rows) -> None:
    off = [value for i, row in enumerate(every) for j, value in enumerate(row) if i != j]
    if not off:
        assert (found.mean, found.std, found.max) == (None, None, None)
        return
    mean = math.fsum(off) / len(off)
    assert found.mean == pytest.approx(mean, abs=1e-12)
    spread = math.fsum((value - mean) ** 2 for value in off) / len(off)
    assert found.std == pytest.approx(math.sqrt(spread), abs=1e-7)
    assert found.max == pytest.approx(max(off), abs=1e-12)


@given(**SHAPES)
@settings(max_examples=60, deadline=None)
def test_groups_of_the_tree_stand_together(seed: int, rows: int, inputs: int) -> None:
    held = drawn(seed, rows, inputs + 1)  # in one dimension all cosines are 1 or -1, so ties
    order = cluster_order(unit_rows(np.array(held)))
    assert sorted(order) == list(range(rows))
    for group in slow_tree(held):
        places = sorted(order.index(row) for row in group)
        assert places[-1] - places[0] == len(places) - 1


@pytest.mark.parametrize(
    "rows",
    [[[1.0, 0.0]] * 5, [[0.0, 0.0]] * 4, [[math.nan, 1.0], [1.0, 0.0], [1.0, 0.1]], [[1.0]]],
)
def test_odd_rows_are_ordered_too(rows: Rows) -> None:
    assert sorted(cluster_order(unit_rows(np.array(rows)))) == list(range(len(rows)))


def test_nothing_to_order_is_an_empty_order() -> None:
    none: Any = np.zeros((0, 3))
    assert cluster_order(unit_rows(none)) == []
    assert similarity(unit_rows(none), cells=8).matrix_MM.shape == (0, 0)


@given(**SHAPES, scale=st.sampled_from([1e-200, 1e-30, 1.0, 1e30]))
@settings(max_examples=60, deadline=None)
def test_parts_add_up_and_their_cosine_is_that_of_the_twin(
    seed: int, rows: int, inputs: int, scale: float
) -> None:
    before, after, som = (np.array(drawn(seed + n, rows, inputs)) * scale for n in range(3))
    parts = split_change(before, after, som)
    np.testing.assert_allclose(parts.combined_DI, after - before)
    np.testing.assert_allclose(
        parts.grad_delta_DI + parts.som_delta_DI, parts.combined_DI, rtol=1e-12, atol=1e-15 * scale
    )
    found = row_cosines(parts.grad_delta_DI, parts.som_delta_DI)
    for row, value in enumerate(found):
        scaled = [(part[row] / scale).tolist() for part in (parts.grad_delta_DI, som)]
        assert value == pytest.approx(slow_cosine(*scaled), abs=1e-9)


def test_without_another_force_all_of_the_change_is_the_gradients() -> None:
    parts = split_change(np.ones((2, 3)), np.full((2, 3), 1.5), None)
    assert parts.grad_delta_DI.tolist() == [[0.5] * 3] * 2
    assert row_cosines(parts.grad_delta_DI, parts.som_delta_DI).tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    ("grad", "som", "cos", "expected"),
    [
        ([1, 1, 1], [1, 1, 1], [0.051, -0.051, 0.049], ["agree", "fight", "neutral"]),
        ([1, 1, 1, 0.0101, 0.0099], [1] * 5, [0.9] * 5, [*["agree"] * 4, "neutral"]),
        ([1] * 5, [1, 0.0099, 0.0101, 1, 1], [-0.9] * 5, ["fight", "neutral", *["fight"] * 3]),
        ([1, 1, 1], [0, 0, 0], [0.9, -0.9, 0.0], ["neutral"] * 3),
        ([1, 1, 1], [1, 1, 1], [math.nan, 1.0, 1.0], ["neutral", "agree", "agree"]),
    ],
)
def test_verdicts(
    grad: list[float], som: list[float], cos: list[float], expected: list[str]
) -> None:
    assert judge(np.array(grad), np.array(som), np.array(cos)).verdict_D == expected


@pytest.mark.parametrize(
    ("target_key", "words"),
    [
        (None, "This run has no targets for the rows of w in step 7."),
        ("pull.towards", "Step 7 has no pull.towards, the targets of w."),
    ],
)
def test_missing_targets_have_the_name_that_the_loop_declared(target_key: Any, words: str) -> None:
    rows = torch.ones(2, 2)
    change = WeightChange(step=7, source="w", before=rows, after=rows, target_key=target_key)
    with pytest.raises(ControlError) as caught:
        CosineMatrix(change, "som_targets", "id", full=False)
    assert str(caught.value) == f"{words} Choose source=weights or source=grad_delta."

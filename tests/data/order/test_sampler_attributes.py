"""What samplers keep in attributes: saved if it changed, named if it is too large."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
import pytest
import torch

from midstep.data.order.sampler_attributes import MOST_ITEMS, SamplerAttributes


class Own:
    def __init__(self, kept: Any) -> None:
        self.kept = kept


CHANGES = [
    ([1, 2], [2, 1]),
    ([[1, 2], [3]], [[3], [1, 2]]),
    (deque([1]), deque([1, 2])),
    ({"a": 1}, {"a": 2}),
    (torch.zeros(3), torch.ones(3)),
    (np.zeros(3), np.ones(4)),
    (None, [1]),
]


@pytest.mark.parametrize(("before", "after"), CHANGES, ids=str)
def test_what_changed_is_saved_and_restored_and_a_setting_is_not(before, after):
    sampler = Own(before)
    attributes = SamplerAttributes(sampler)
    assert attributes.state() == {}
    sampler.kept = after
    state = attributes.state()
    fresh = Own(before)
    assert SamplerAttributes(fresh).load(state) == []
    assert type(fresh.kept) is type(after)
    assert np.array_equal(fresh.kept, after) if hasattr(after, "shape") else fresh.kept == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (list(range(MOST_ITEMS + 1)), [9, *range(MOST_ITEMS)]),
        (torch.zeros(1 << 18), torch.ones(1 << 19)),
    ],
    ids=["list", "tensor"],
)
def test_what_is_too_large_is_named_if_it_changed(before, after):
    sampler = Own(before)
    attributes = SamplerAttributes(sampler)
    assert attributes.state() == {}
    sampler.kept = after
    (words,) = SamplerAttributes(Own(before)).load(attributes.state())
    assert "'kept', which is too large to save" in words


def test_objects_and_their_lists_are_left_alone():
    sampler = Own([object(), object()])
    attributes = SamplerAttributes(sampler)
    sampler.kept = [object()]
    assert attributes.state() == {}

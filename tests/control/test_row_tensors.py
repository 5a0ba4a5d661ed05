"""Clones of tensors are written over only where the new values lie as the old ones did."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from midstep.control.row_tensors import write_over


def test_clones_take_the_new_values_in_their_own_memory() -> None:
    clone = torch.zeros(2, 3)
    assert write_over({"w": lambda: torch.ones(2, 3)}, {"w": clone})
    assert torch.equal(clone, torch.ones(2, 3))


@pytest.mark.parametrize(
    "now",
    [
        torch.ones(3, 3),
        torch.ones(2, 3, dtype=torch.float64),
        torch.ones(3, 2).T,
        torch.ones(2, 3, device="meta"),
    ],
    ids=["shape", "dtype", "layout", "device"],
)
def test_a_tensor_that_lies_otherwise_is_to_be_cloned_anew(now: Tensor) -> None:
    clone = torch.zeros(2, 3)
    assert not write_over({"w": lambda: now}, {"w": clone})
    assert torch.equal(clone, torch.zeros(2, 3))


def test_a_source_that_raises_is_to_be_cloned_anew() -> None:
    def gone() -> Tensor:
        raise RuntimeError("gone")

    assert not write_over({"w": gone}, {"w": torch.zeros(2)})

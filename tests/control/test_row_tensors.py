"""Clones of tensors are written over only where the new values lie as the old ones did."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from midstep.control.capture.weight_changes import clone_within_budget


def cloned(tensor: Tensor, spare: Tensor) -> Tensor:
    clones, _ = clone_within_budget({"w": lambda: tensor}, ["w"], 1 << 20, {"w": spare})
    return clones["w"]


def test_clones_take_the_new_values_in_their_own_memory() -> None:
    spare = torch.zeros(2, 3)
    assert cloned(torch.ones(2, 3), spare) is spare
    assert torch.equal(spare, torch.ones(2, 3))


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
def test_a_tensor_that_lies_otherwise_is_cloned_anew(now: Tensor) -> None:
    spare = torch.zeros(2, 3)
    made = cloned(now, spare)
    assert made is not spare
    assert (made.shape, made.dtype, made.device) == (now.shape, now.dtype, now.device)
    assert torch.equal(spare, torch.zeros(2, 3))

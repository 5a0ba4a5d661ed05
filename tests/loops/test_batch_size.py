"""The automatic batch size: it fits, is not above the dataset, and the search leaves no trace."""

from __future__ import annotations

import copy
import random
import statistics
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from midstep.core import set_all_seeds
from midstep.core.errors import ConfigError
from midstep.loops.batch_size import ProcessMemory, find_batch_size

CPU, GPU = torch.device("cpu"), torch.device("cuda:0")
MIB = 1 << 20


class FakeDevice:
    """Steps that run out of memory above a size."""

    def __init__(self, fits: int, error: type[RuntimeError] = torch.OutOfMemoryError) -> None:
        self.fits, self.error = fits, error
        self.sizes: list[int] = []

    def step(self, size: int) -> None:
        self.sizes.append(size)
        if size > self.fits:
            raise self.error("CUDA error: out of memory")


class FakeMemory:
    """A process that grows by one MiB for each sample of a step."""

    def __init__(self, free_mib: int) -> None:
        self.free_mib = free_mib
        self.size = 0

    def step(self, size: int) -> None:
        self.size = size

    def free_bytes(self) -> int:
        return self.free_mib * MIB

    def peak_of(self, call: Callable[[], object]) -> int:
        call()
        return self.size * MIB


@pytest.mark.parametrize(
    ("fits", "error"),
    [(1, RuntimeError), (33, torch.OutOfMemoryError), (300, torch.OutOfMemoryError)],
)
def test_a_gpu_gets_a_size_that_fits_and_is_near_the_largest(
    fits: int, error: type[RuntimeError]
) -> None:
    device = FakeDevice(fits, error)
    size = find_batch_size(device.step, device=GPU, dataset_size=1_000_000)
    assert 0.88 * fits <= size <= fits
    assert size in device.sizes
    assert max(device.sizes) <= max(2 * fits, 32)


@pytest.mark.parametrize("dataset_size", [1, 20, 100, 1_797])
def test_a_size_is_never_above_the_dataset(dataset_size: int) -> None:
    device, memory = FakeDevice(10**9), FakeMemory(10**9)
    assert find_batch_size(device.step, device=GPU, dataset_size=dataset_size) == dataset_size
    assert max(device.sizes) == dataset_size
    size = find_batch_size(memory.step, device=CPU, dataset_size=dataset_size, memory=memory)
    assert size == dataset_size


@pytest.mark.parametrize("quarter_mib", [1, 5, 40, 1_000, 3_000])
def test_a_cpu_step_stays_within_a_quarter_of_free_memory(quarter_mib: int) -> None:
    memory = FakeMemory(4 * quarter_mib)
    size = find_batch_size(memory.step, device=CPU, dataset_size=1_000_000, memory=memory)
    assert quarter_mib / 2 < size <= quarter_mib


def test_one_sample_that_does_not_fit_is_an_error_in_one_line() -> None:
    with pytest.raises(ConfigError, match="one sample does not fit into the memory of cuda:0"):
        find_batch_size(FakeDevice(0).step, device=GPU, dataset_size=100)
    memory = FakeMemory(0)
    with pytest.raises(ConfigError, match="a quarter of the free memory"):
        find_batch_size(memory.step, device=CPU, dataset_size=100, memory=memory)


def test_another_error_of_a_step_is_not_taken_for_missing_memory() -> None:
    def step(size: int) -> None:
        raise RuntimeError(f"mat1 and mat2 cannot be multiplied ({size}x3 and 4x5)")

    with pytest.raises(RuntimeError, match="mat1"):
        find_batch_size(step, device=GPU, dataset_size=100)


def trained(*, begun: bool) -> tuple[nn.Module, torch.optim.Optimizer, Callable[[int], None]]:
    """A model with buffers and dropout, and its optimizer, before or after a first step."""
    set_all_seeds(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(), nn.Linear(8, 4))
    model[1].register_buffer("scratch", torch.zeros(8), persistent=False)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1, amsgrad=True)

    def step(size: int) -> None:
        model.train()
        model[1].scratch += 1
        loss = model(torch.randn(size, 4) + random.random() + np.random.rand()).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        optimizer.param_groups[0]["lr"] *= 0.9

    if begun:
        step(5)
    model.eval()
    return model, optimizer, step


def everything(model: nn.Module, optimizer: torch.optim.Optimizer) -> list[Any]:
    values = [*model.parameters(), *model.buffers()]
    return [
        [value.detach().clone() for value in values],
        [None if each.grad is None else each.grad.clone() for each in model.parameters()],
        copy.deepcopy(optimizer.state_dict()),
        [each.training for each in model.modules()],
        torch.get_rng_state(),
        random.getstate(),
        np.random.get_state()[1].copy(),
    ]


@pytest.mark.parametrize("begun", [False, True])
def test_the_search_leaves_no_trace(begun: bool) -> None:
    model, optimizer, step = trained(begun=begun)
    before, addresses = everything(model, optimizer), [each.data_ptr() for each in model.buffers()]
    size = find_batch_size(
        step, device=CPU, dataset_size=100, parts=(model, optimizer), memory=FakeMemory(10**6)
    )
    torch.testing.assert_close(everything(model, optimizer), before, rtol=0, atol=0)
    assert size == 100
    assert [each.data_ptr() for each in model.buffers()] == addresses
    step(10)
    twin_model, _, twin_step = trained(begun=begun)
    twin_step(10)
    for ours, theirs in zip(model.parameters(), twin_model.parameters(), strict=True):
        assert torch.equal(ours, theirs)


def test_the_search_restores_also_when_a_step_raises() -> None:
    model, optimizer, step = trained(begun=True)
    before = everything(model, optimizer)

    def failing(size: int) -> None:
        step(size)
        raise KeyError("label")

    with pytest.raises(KeyError):
        find_batch_size(failing, device=CPU, dataset_size=100, parts=(model, optimizer))
    torch.testing.assert_close(everything(model, optimizer), before, rtol=0, atol=0)


def test_the_peak_of_a_call_is_measured() -> None:
    memory = ProcessMemory()
    assert memory.free_bytes() > 0
    # 64 MiB, freed at the end. Another thread, or the system, may take memory away meanwhile.
    grown = statistics.median(memory.peak_of(lambda: torch.ones(16 * MIB)) for _ in range(5))
    assert 48 * MIB < grown < 160 * MIB

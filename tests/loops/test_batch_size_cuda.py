"""The automatic batch size on a GPU: real steps that run out of memory, and no trace of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import nn

from midstep.loops.batch_size import find_batch_size

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="needs a CUDA device; run where there is one"
)
WIDTH = 4_096
LIMIT_BYTES = 2 << 30


@pytest.fixture
def device() -> Iterator[torch.device]:
    """A GPU of which this process may use two GiB."""
    device = torch.device("cuda:0")
    total = torch.cuda.get_device_properties(device).total_memory
    torch.cuda.set_per_process_memory_fraction(LIMIT_BYTES / total, device)
    yield device
    torch.cuda.set_per_process_memory_fraction(1.0, device)


def test_the_size_fits_and_the_search_leaves_no_trace(device: torch.device) -> None:
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Dropout(), nn.Linear(WIDTH, 1)).to(device)
    optimizer = torch.optim.Adam(model.parameters())

    def step(size: int) -> None:
        loss = model(torch.randn(size, WIDTH, device=device)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    weights = [weight.detach().clone() for weight in model.parameters()]
    generator = torch.cuda.get_rng_state(device)
    size = find_batch_size(step, device=device, dataset_size=10**8, parts=(model, optimizer))
    assert all(map(torch.equal, model.parameters(), weights))
    assert torch.equal(torch.cuda.get_rng_state(device), generator)
    assert not optimizer.state
    assert all(weight.grad is None for weight in model.parameters())
    for _ in range(3):
        step(size)
    with pytest.raises(torch.OutOfMemoryError):
        step(2 * size)
    least = LIMIT_BYTES // (8 * 4 * WIDTH)  # a sample takes fewer than eight rows of float32
    assert size >= least

"""Kernels on a GPU against float64 on the CPU; skipped where there is none."""

from __future__ import annotations

import pytest
import torch

from midstep.influence.gradients.sequences import SequenceBatch
from midstep.influence.kernels.fisher import fisher_kernel
from midstep.influence.optimizers.adam_state import AdamState
from tests.influence.tiny_models import batch_of, relative, stepped_optimizer, tiny

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
WEIGHTS = torch.tensor([0.5, -1.0, 0.0, 0.7, 1.0 / 3.0], dtype=torch.float64)
FAMILY = ["own_learned", "own_rotary"]
NEAR = {torch.float64: 1e-10, torch.float32: 1e-4, torch.bfloat16: 0.25}


def on(batch: SequenceBatch, device: str) -> SequenceBatch:
    mask = batch.attention_mask
    return SequenceBatch(
        batch.input_ids.to(device),
        batch.response_mask.to(device),
        None if mask is None else mask.to(device),
    )


def kernel(family: str, device: str, dtype: torch.dtype, *, rounded=torch.float64, **options):
    """Of weights rounded to `rounded`, computed in `dtype`."""
    model = tiny(family).to(rounded).double()
    state = AdamState.from_optimizer(stepped_optimizer(model), model)
    return fisher_kernel(
        model.to(device, dtype), on(batch_of(5, 1), device), on(batch_of(4, 2), device),
        optimizer=state, weights=WEIGHTS, microbatch=2, **options,
    )  # fmt: skip


@pytest.mark.parametrize("dtype", list(NEAR))
@pytest.mark.parametrize("mode", ["resident", "bounded"])
@pytest.mark.parametrize("family", FAMILY)
def test_kernel_on_a_gpu_equals_the_one_on_the_cpu(family: str, mode, dtype: torch.dtype) -> None:
    options = {"algorithm": "sweep", "mode": mode}
    true = kernel(family, "cpu", torch.float64, rounded=dtype, **options)
    found = kernel(family, "cuda", dtype, rounded=dtype, **options)
    assert relative(found.k_eu.cpu(), true.k_eu) <= NEAR[dtype]
    assert relative(found.k_uu.cpu(), true.k_uu) <= NEAR[dtype]
    assert relative(found.delta_logpi.cpu(), true.delta_logpi) <= NEAR[dtype]
    assert relative(found.norms_e.cpu(), true.norms_e) <= NEAR[dtype]


@pytest.mark.parametrize("algorithm", ["direction", "jvp"])
@pytest.mark.filterwarnings("ignore:`torch.jit.script`:DeprecationWarning")
def test_change_alone_on_a_gpu_equals_the_one_on_the_cpu(algorithm) -> None:
    true, found = (
        kernel("own_rotary", device, torch.float64, algorithm=algorithm, want=("delta",))
        for device in ("cpu", "cuda")
    )
    assert relative(found.delta_logpi.cpu(), true.delta_logpi) <= NEAR[torch.float64]

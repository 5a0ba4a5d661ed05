"""With D = 1 and linear layers alone, the kernel is kronfluence's `identity` block."""

from __future__ import annotations

import logging

import pytest
import torch
from benchmarks.influence.kronfluence_block import linear_names

from midstep.influence.kernels.fisher import fisher_kernel
from tests.influence.kronfluence_golden import (
    CASES,
    kept_blocks,
    model_of,
    update_and_evaluation,
)
from tests.influence.tiny_models import batch_of, gradients, relative, tiny


def plain_block(model, update, evaluation):
    names = [f"{name}.*" for name in linear_names(model)]
    block = fisher_kernel(
        model, update, evaluation, preconditioner="sgd", parameters=names, want=("EU",)
    )
    return block.k_eu


@pytest.mark.parametrize("case", CASES)
def test_plain_kernel_of_linear_layers_is_the_block_that_kronfluence_gave(case: str) -> None:
    update, evaluation = update_and_evaluation()
    true = kept_blocks()[case]
    assert relative(plain_block(model_of(case), update, evaluation), true) <= 1e-5
    # In float64 as well: then only the rounding of what was kept remains.
    assert relative(plain_block(model_of(case).double(), update, evaluation), true) <= 1e-5


@pytest.mark.parametrize("case", CASES)
@pytest.mark.filterwarnings("ignore")  # the library's own deprecations are not ours to fix
def test_plain_kernel_of_linear_layers_is_the_identity_block(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("kronfluence", reason="kronfluence is not installed")
    import tqdm

    monkeypatch.setattr(tqdm.tqdm, "monitor_interval", 0)  # it would leave a thread behind
    # It silences the whole process; what is set here is put back, whatever it sets in between.
    monkeypatch.setattr(logging.root, "level", logging.root.level)
    from benchmarks.influence.kronfluence_block import identity_block

    update, evaluation = update_and_evaluation()
    true = identity_block(model_of(case), update, evaluation)
    assert relative(plain_block(model_of(case), update, evaluation), true) <= 1e-5
    assert relative(kept_blocks()[case], true) <= 1e-5


def test_plain_kernel_of_linear_layers_is_the_sum_over_their_gradients() -> None:
    model = tiny("own_rotary")
    update, evaluation = batch_of(5, 1), batch_of(4, 2)
    names = linear_names(model)
    g_u, g_e = gradients(model, update), gradients(model, evaluation)
    counted = [name for name in g_u if name.rpartition(".")[0] in names]
    true = sum(g_e[name] @ g_u[name].T for name in counted)
    assert isinstance(true, torch.Tensor)
    assert relative(plain_block(model, update, evaluation), true) <= 1e-10

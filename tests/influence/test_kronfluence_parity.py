"""With D = 1 and linear layers alone, the kernel is kronfluence's `identity` block."""

from __future__ import annotations

import logging

import pytest
import torch

from midstep.influence.kernels import fisher_kernel
from tests.influence.twins import batch_of, gradients, relative, tiny


@pytest.mark.filterwarnings("ignore")  # the library's own deprecations are not ours to fix
def test_plain_kernel_of_linear_layers_is_the_identity_block(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("kronfluence", reason="kronfluence is not installed")
    import tqdm

    monkeypatch.setattr(tqdm.tqdm, "monitor_interval", 0)  # it would leave a thread behind
    # It silences the whole process; what is set here is put back, whatever it sets in between.
    monkeypatch.setattr(logging.root, "level", logging.root.level)
    from benchmarks.kronfluence_block import identity_block, linear_names

    model = tiny("own_rotary").float().eval()
    update, evaluation = batch_of(5, 1), batch_of(4, 2)
    names = [f"{name}.*" for name in linear_names(model)]
    block = fisher_kernel(
        model, update, evaluation, preconditioner="sgd", parameters=names, want=("EU",)
    )
    assert relative(block.k_eu, identity_block(model, update, evaluation)) <= 1e-5


def test_plain_kernel_of_linear_layers_is_the_sum_over_their_gradients() -> None:
    model = tiny("own_rotary")
    update, evaluation = batch_of(5, 1), batch_of(4, 2)
    names = [
        f"{name}.*"
        for name, each in model.named_modules()
        if isinstance(each, torch.nn.Linear) and name != "head"
    ]
    block = fisher_kernel(
        model, update, evaluation, preconditioner="sgd", parameters=names, want=("EU",)
    )
    g_u, g_e = gradients(model, update), gradients(model, evaluation)
    counted = [name for name in g_u if any(name.startswith(each[:-1]) for each in names)]
    assert relative(block.k_eu, sum(g_e[name] @ g_u[name].T for name in counted)) <= 1e-10

"""`Layers`: norms of every parameter, against a slow and obvious twin."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from midstep.session.metrics import tensor_norms as layers_module
from midstep.session.metrics.tensor_norms import ParameterNorms


def small_net() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))


def twin(model: nn.Module, before: dict[str, torch.Tensor]) -> dict[str, list[float]]:
    """One parameter at a time, in double precision."""
    rows = []
    for name, value in model.named_parameters():
        weight = value.detach().double()
        gradient = torch.zeros_like(weight) if value.grad is None else value.grad.double()
        change = (weight - before[name].double()).norm() / weight.norm()
        rows.append([weight.norm().item(), gradient.norm().item(), change.item()])
    columns = [list(column) for column in zip(*rows, strict=True)]
    return dict(zip(("weight_norm", "grad_norm", "update_ratio"), columns, strict=True))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_table_is_that_of_the_slow_twin(dtype):
    model = small_net().to(dtype)
    model[2].bias.requires_grad_(False)
    model(torch.randn(5, 3, dtype=dtype)).square().mean().backward()
    before = {name: value.detach().clone() for name, value in model.named_parameters()}
    layers = ParameterNorms(model.named_parameters())
    torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1).step()
    expected = twin(model, before)
    model.zero_grad()
    table = layers.table()
    assert table["name"] == list(before)
    for name, column in expected.items():
        assert table[name].tolist() == pytest.approx(column, rel=1e-4), name
        assert table[name].device.type == "cpu"


def test_mixed_types_and_sparse_gradients_have_norms():
    model = nn.ModuleList([nn.Embedding(5, 3, sparse=True), nn.Linear(3, 2).bfloat16()])
    model[0](torch.tensor([1, 1, 2])).sum().backward()
    model.append(nn.Linear(2, 2).double())
    norms = ParameterNorms(model.named_parameters()).table()["grad_norm"].tolist()
    assert norms == pytest.approx([math.sqrt(3 * 2**2 + 3), 0, 0, 0, 0])


def test_weights_beyond_the_limit_are_not_kept_and_have_no_ratio(monkeypatch):
    monkeypatch.setattr(layers_module, "BYTES_KEPT", 12 * 4)
    ratios = ParameterNorms(small_net().named_parameters()).table()["update_ratio"].tolist()
    assert ratios[0] == 0.0
    assert all(math.isnan(ratio) for ratio in ratios[1:])


def test_reading_changes_neither_weights_nor_gradients_nor_generators():
    model = small_net()
    model(torch.ones(1, 3)).sum().backward()
    kept = [(p.detach().clone(), p.grad.clone(), p._version) for p in model.parameters()]
    state = torch.get_rng_state()
    ParameterNorms(model.named_parameters()).table()
    for (value, gradient, version), now in zip(kept, model.parameters(), strict=True):
        assert torch.equal(now, value)
        assert torch.equal(now.grad, gradient)
        assert now._version == version
    assert torch.equal(torch.get_rng_state(), state)


def test_a_model_without_parameters_has_an_empty_table():
    assert ParameterNorms([]).table()["name"] == []

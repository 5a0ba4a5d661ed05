"""Adam's state on disk: bound by name, shapes checked, nothing guessed."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from midstep.core.errors import ConfigError, FormatError, StorageError
from midstep.core.files.atomic_folders import add_folder
from midstep.influence.optimizers.adam_state import decay_groups
from midstep.influence.optimizers.optimizer_files import load_optimizer, serialize_optimizer
from tests.influence.small_lm import adamw, small_model


def same_state(one: torch.optim.Optimizer, model, other: torch.optim.Optimizer, twin) -> bool:
    pairs = zip(model.parameters(), twin.parameters(), strict=True)
    return all(
        torch.equal(one.state[a][kind], other.state[b][kind])
        for a, b in pairs
        for kind in ("exp_avg", "exp_avg_sq", "step")
    )


def test_state_comes_back_by_name(tmp_path: Path) -> None:
    model, twin = small_model(), small_model()
    optimizer = adamw(model, weight_decay=0.3, betas=(0.8, 0.95))
    add_folder(tmp_path / "state", serialize_optimizer(optimizer, model))
    back = load_optimizer(tmp_path / "state", twin)
    assert same_state(optimizer, model, back, twin)
    assert back.param_groups[0]["betas"] == (0.8, 0.95)
    assert back.param_groups[0]["weight_decay"] == 0.3


def test_file_with_names_is_bound_whatever_its_order(tmp_path: Path) -> None:
    model, twin = small_model(), small_model()
    turned = list(model.named_parameters())[::-1]
    optimizer = torch.optim.AdamW(turned, lr=1e-3)
    for _, parameter in turned:
        parameter.grad = torch.ones_like(parameter) * parameter.numel()
    optimizer.step()
    torch.save(optimizer.state_dict(), tmp_path / "optimizer.pt")
    assert same_state(optimizer, model, load_optimizer(tmp_path / "optimizer.pt", twin), twin)


def test_file_without_names_needs_its_order_said(tmp_path: Path) -> None:
    model, twin = small_model(), small_model()
    optimizer = adamw(model)
    torch.save(optimizer.state_dict(), tmp_path / "optimizer.pt")
    with pytest.raises(ConfigError, match=r"holds numbers instead of parameter names.*'decay'"):
        load_optimizer(tmp_path / "optimizer.pt", twin)
    back = load_optimizer(tmp_path / "optimizer.pt", twin, order="model")
    assert same_state(optimizer, model, back, twin)


def test_groups_with_and_without_decay_are_bound(tmp_path: Path) -> None:
    model, twin = (small_model(norm="layer", bias=True) for _ in range(2))
    named = dict(model.named_parameters())
    decayed, others = decay_groups(model)
    optimizer = torch.optim.AdamW(
        [
            {"params": [named[name] for name in decayed], "weight_decay": 0.1},
            {"params": [named[name] for name in others], "weight_decay": 0.0},
        ]
    )
    for at, parameter in enumerate(named.values()):
        parameter.grad = torch.full_like(parameter, at + 1.0)
    optimizer.step()
    torch.save(optimizer.state_dict(), tmp_path / "optimizer.pt")
    back = load_optimizer(tmp_path / "optimizer.pt", twin, order="decay")
    assert same_state(optimizer, model, back, twin)
    assert [group["weight_decay"] for group in back.param_groups] == [0.1, 0.0]


def test_state_of_another_shape_or_before_the_first_step_is_refused(tmp_path: Path) -> None:
    model = small_model()
    add_folder(tmp_path / "state", serialize_optimizer(adamw(model), model))
    with pytest.raises(ConfigError, match=r"has shape \[17, 16\], the parameter \[17, 8\]"):
        load_optimizer(tmp_path / "state", small_model(width=8))
    with pytest.raises(ConfigError, match="which the model does not have"):
        load_optimizer(tmp_path / "state", small_model(layers=1))
    fresh = torch.optim.AdamW(model.parameters())
    add_folder(tmp_path / "fresh", serialize_optimizer(fresh, model))
    with pytest.raises(ConfigError, match="saved before the first step"):
        load_optimizer(tmp_path / "fresh", model)


def test_what_is_no_state_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="no optimizer state at"):
        load_optimizer(tmp_path / "none", small_model())
    torch.save({"weights": 1}, tmp_path / "other.pt")
    with pytest.raises(FormatError, match="holds no optimizer state"):
        load_optimizer(tmp_path / "other.pt", small_model())


def test_code_in_a_state_file_never_runs(tmp_path: Path) -> None:
    torch.save({"state": {}, "param_groups": Path("x")}, tmp_path / "code.pt")
    with pytest.raises(FormatError, match="holds no optimizer state"):
        load_optimizer(tmp_path / "code.pt", small_model())

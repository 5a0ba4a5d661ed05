"""Wrong inputs are refused with what to do."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch

from midstep.core.errors import ConfigError
from midstep.influence.gradients.sequences import SequenceBatch
from midstep.influence.kernels.fisher import fisher_kernel
from midstep.influence.optimizers.adam_state import AdamState, decay_groups
from midstep.influence.optimizers.optimizer_files import load_optimizer
from tests.influence.tiny_models import CONTEXT, VOCABULARY, batch_of, stepped_optimizer, tiny

MODEL = tiny("own_learned")
IDS = torch.tensor([[1, 2, 3]])


@pytest.mark.parametrize(
    ("ids", "response", "attention", "message"),
    [
        (torch.zeros(0, 3).long(), torch.zeros(0, 3), None, "at least one sequence"),
        (IDS.float(), torch.tensor([[0, 1, 1]]), None, "must be integers"),
        (IDS, torch.tensor([[0, 1]]), None, "pad both to one width"),
        (IDS, torch.tensor([[0, 0, 0]]), None, "no response token"),
        (IDS, torch.tensor([[1, 1, 1]]), None, "no token before it"),
        (IDS, torch.tensor([[0, 1, 0]]), torch.tensor([[0, 1, 1]]), "no token before it"),
        (IDS, torch.tensor([[0, 1, 1]]), torch.tensor([[1, 1, 0]]), "marks padding"),
        (IDS, torch.tensor([[0, 0, 1]]), torch.tensor([[1, 0, 1]]), "contiguous run"),
        (IDS, torch.tensor([[0, 0, 1]]), torch.tensor([[0, 0, 0]]), "contiguous run"),
    ],
)
def test_malformed_batches_are_refused(ids, response, attention, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        SequenceBatch(ids, response, attention)


def kernel(update=None, model=MODEL, **options):
    options = {"preconditioner": "sgd", **options}
    return fisher_kernel(model, batch_of(3) if update is None else update, **options)


def test_sequence_longer_than_the_context_is_refused() -> None:
    long = torch.ones(1, CONTEXT + 1).long()
    mask = torch.ones_like(long)
    mask[:, 0] = 0
    with pytest.raises(ConfigError, match=f"context is {CONTEXT}: shorten"):
        kernel(SequenceBatch(long, mask))


def test_token_without_a_row_is_refused() -> None:
    with pytest.raises(ConfigError, match="tokenizer of this checkpoint"):
        kernel(SequenceBatch(torch.tensor([[1, VOCABULARY]]), torch.tensor([[0, 1]])))


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0, float("nan"), 0.0], "NaN or infinite"),
        ([0.0, 0.0, 0.0], "every weight of the update is zero"),
        ([1.0, 2.0], "expected \\[3\\]"),
    ],
)
def test_bad_weights_are_refused(weights, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        kernel(weights=weights)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"preconditioner": "adam_post"}, "needs the state of an AdamW"),
        ({"preconditioner": "adam"}, "must be one of adam_post, adam_state, sgd"),
        ({"algorithm": "fast"}, "algorithms are auto, sweep"),
        ({"algorithm": "direction"}, "computes Δ alone"),
        ({"want": ("EE",)}, "must name some of 'EU'"),
        ({"parameters": ["nothing.*"]}, "no trained parameter matches 'nothing"),
    ],
)
def test_bad_settings_are_refused(options, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        kernel(**options)


def test_model_with_nothing_to_train_is_refused() -> None:
    frozen = copy.deepcopy(MODEL).requires_grad_(requires_grad=False)
    with pytest.raises(ConfigError, match="unfreeze"):
        kernel(model=frozen)


def test_missing_optimizer_state_is_refused() -> None:
    fresh = torch.optim.AdamW(MODEL.parameters())
    with pytest.raises(ConfigError, match=r"has no state for 'embedding.weight'.*fresh_state"):
        kernel(optimizer=fresh, preconditioner="adam_post")


def test_parameter_outside_the_optimizer_is_refused_by_name() -> None:
    optimizer = torch.optim.AdamW(list(MODEL.parameters())[:-1])
    with pytest.raises(ConfigError, match=r"no state for 'head.weight'"):
        kernel(optimizer=optimizer, preconditioner="adam_post", fresh_state=True)


def test_state_of_another_shape_is_refused() -> None:
    model = copy.deepcopy(MODEL)
    optimizer = stepped_optimizer(model)
    optimizer.state[model.embedding.weight]["exp_avg_sq"] = torch.zeros(2, 2)
    with pytest.raises(ConfigError, match=r"exp_avg_sq of 'embedding.weight' has shape \[2, 2\]"):
        kernel(model=model, optimizer=optimizer, preconditioner="adam_post")


@pytest.mark.parametrize(
    ("optimizer", "message"),
    [
        (torch.optim.AdamW(MODEL.parameters(), amsgrad=True), "amsgrad"),
        (torch.optim.Adam(MODEL.parameters(), weight_decay=0.1), "adds its weight decay"),
        (torch.optim.SGD(MODEL.parameters(), lr=0.1), "not an Adam optimizer"),
        (torch.optim.AdamW(MODEL.parameters(), lr=0.0), "learning rate 0"),
    ],
)
def test_optimizers_that_do_something_else_are_refused(optimizer, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        kernel(optimizer=optimizer, preconditioner="adam_post", fresh_state=True)


def test_saved_state_binds_by_name_only(tmp_path: Path) -> None:
    model = copy.deepcopy(MODEL)
    optimizer = stepped_optimizer(model)
    saved, file = optimizer.state_dict(), tmp_path / "optimizer.pt"
    torch.save(saved, file)
    with pytest.raises(ConfigError, match="numbers instead of parameter names"):
        load_optimizer(file, model)
    names = {id(each): name for name, each in model.named_parameters()}
    groups = [[names[id(p)] for p in group["params"]] for group in optimizer.param_groups]
    for group, members in zip(saved["param_groups"], groups, strict=True):
        group["param_names"] = members
    torch.save(saved, file)
    bound = AdamState.from_optimizer(load_optimizer(file, model), model)
    live = AdamState.from_optimizer(optimizer, model)
    assert bound.parameters.keys() == live.parameters.keys()
    for name, kept in bound.parameters.items():
        assert torch.equal(kept.exp_avg_sq, live.parameters[name].exp_avg_sq)
        assert kept.weight_decay == live.parameters[name].weight_decay
    saved["param_groups"][0]["param_names"] = groups[0][::-1]
    torch.save(saved, file)
    with pytest.raises(ConfigError, match="shape"):
        load_optimizer(file, model)


def test_groups_of_a_trainer_file_are_told_apart() -> None:
    decayed, plain = decay_groups(MODEL)
    assert all(each.endswith("weight") and "norm" not in each for each in decayed)
    assert all("norm" in each or each.endswith("bias") for each in plain)
    assert len(decayed) + len(plain) == len(list(MODEL.parameters()))


@pytest.mark.parametrize("name", ["lr", "max_grad_norm", "clip_factor"])
@pytest.mark.parametrize("value", [-1.0, 0.0, float("nan"), float("inf")])
def test_numbers_that_would_turn_the_step_are_refused(name: str, value: float) -> None:
    with pytest.raises(ConfigError, match=f"{name} must be a number above 0"):
        kernel(**{name: value})

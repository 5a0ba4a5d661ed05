"""Modules and generators that were not given: what changes is named, what does not is no alarm."""

from __future__ import annotations

import copy
import random
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel
from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset

from midstep.core.errors import ConfigError
from midstep.facts import FactsReader
from midstep.live import attach
from midstep.session import Session, SessionConfig
from midstep.session.state.generators import GeneratorSearch


def parts() -> tuple[nn.Module, torch.optim.Optimizer, DataLoader[Any]]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
    data = TensorDataset(torch.randn(8, 3), torch.randn(8, 1))
    return model, torch.optim.SGD(model.parameters(), lr=0.1), DataLoader(data, batch_size=2)


def reasons(folder: Any) -> list[str]:
    events = FactsReader(folder).events()
    return [event["reason"] for event in events if event.get("kind") == "inexact"]


def follow(average: nn.Module, model: nn.Module) -> None:
    with torch.no_grad():
        for mean, weight in zip(average.parameters(), model.parameters(), strict=True):
            mean.lerp_(weight, 0.1)


def session(folder: Any, after_step: Callable[[nn.Module], object], **given: Any) -> Session:
    model, optimizer, loader = parts()
    settings = {"save_dir": folder, "checkpoint_every_steps": 2}
    config = SessionConfig(**settings | given.pop("config", {}))
    training = Session(model, optimizer, nn.MSELoss(), loader, config=config, **given)
    training.after_step(after_step)
    return training


def test_a_session_refuses_a_module_that_changes_and_was_not_given(tmp_path):
    average = copy.deepcopy(parts()[0])
    hook = lambda model: follow(average, model)  # noqa: E731 - what the search looks through
    words = "average is a Sequential that no declared part holds, and it has changed"
    with session(tmp_path, hook) as refused, pytest.raises(ConfigError, match=words):
        refused.fit(steps=4)
    assert refused.trainer.step == 1
    reported = {"config": {"enforce_sampler_state": False}}
    with session(tmp_path, hook, **reported) as training:
        training.fit(steps=6)
        folder = training.dir
    assert sum(words in each for each in reasons(folder)) == 1


def test_a_session_refuses_an_averaged_model_that_was_not_given(tmp_path):
    average = AveragedModel(parts()[0])
    with (
        session(tmp_path, average.update_parameters) as training,
        pytest.raises(ConfigError, match="is an AveragedModel that was not given"),
    ):
        training.fit(steps=1)
    given = {"extra_state": {"average": average}}
    with session(tmp_path, average.update_parameters, **given) as training:
        training.fit(steps=3)


class Held:
    """An average inside of an object of the user's own."""

    def __init__(self, model: nn.Module) -> None:
        self.module = copy.deepcopy(model)

    def state_dict(self) -> dict[str, Any]:
        return dict(self.module.state_dict())

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.module.load_state_dict(state)


def test_modules_that_stay_or_are_given_are_no_alarm(tmp_path):
    teacher = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))  # in training mode, as often
    metric = nn.Identity()
    pair, held = copy.deepcopy(parts()[0]), Held(parts()[0])
    inner = held.module
    wrappers: list[nn.Module] = []

    def after_step(model: nn.Module) -> None:
        with torch.no_grad():
            teacher(metric(torch.ones(4, 3)))
        follow(pair, model)
        follow(inner, model)
        wrappers[0](torch.ones(2, 3))

    functions = (pair.state_dict, pair.load_state_dict)
    given = {"extra_state": {"pair": functions, "held": held}}
    with session(tmp_path, after_step, **given) as training:
        wrappers.append(nn.Sequential(training.trainer.parts.model))  # as DDP or a compiled model
        training.fit(steps=6)
        assert reasons(training.dir) == []


@pytest.mark.parametrize("when", ["each step", "each epoch", "never"])
def test_attach_reports_a_module_that_changes_once(tmp_path, when):
    model, optimizer, loader = parts()
    average = copy.deepcopy(model)
    with attach(model, optimizer, loader, save_dir=tmp_path) as run:
        nn.init.zeros_(next(average.parameters()))  # before the loop: that belongs to the script
        for _ in run.epochs(3):
            for x, y in loader:
                nn.functional.mse_loss(model(x), y).backward()
                optimizer.step()
                optimizer.zero_grad()
                if when == "each step":
                    follow(average, model)
            if when == "each epoch":
                average.load_state_dict(model.state_dict())
    named = [each for each in reasons(run.dir) if "average is a Sequential" in each]
    assert len(named) == (when != "never"), named


# -- where generators are found -------------------------------------------------------------------

RNG = random.Random(0)


class Shared:
    """Its generator belongs to the class."""

    rng = random.Random(0)


class Drawing(nn.Module):
    """Draws from a global variable in its forward pass."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * RNG.random()


def hooked() -> nn.Module:
    layer, rng = nn.Linear(2, 2), np.random.default_rng(0)
    layer.register_forward_hook(lambda _module, _given, output: output * rng.random())
    return nn.Sequential(layer)


@pytest.mark.parametrize(
    "value",
    [deque([np.random.default_rng(0)]), Shared(), Drawing(), hooked()],
    ids=["deque", "class attribute", "global of a forward", "forward hook"],
)
def test_a_generator_is_found(value):
    search = GeneratorSearch()
    search.look_at("value", value)
    assert len(search.generators) == 1


class Transformed(Dataset[torch.Tensor]):
    """Its samples are computed by a list of functions."""

    def __init__(self, *transforms: Callable[[Any], Any]) -> None:
        self.transforms = list(transforms)

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> torch.Tensor:
        x: Any = torch.full((3,), float(index))
        for transform in self.transforms:
            x = transform(x)
        return x


def drawing() -> Callable[[Any], Any]:
    rng = np.random.default_rng(0)
    return lambda x: x * rng.random()


def loaders() -> dict[str, dict[str, Any]]:
    rng = np.random.default_rng(0)
    return {
        "a list of transforms": {"dataset": Transformed(drawing())},
        "behind a subset": {"dataset": Subset(Subset(Transformed(drawing()), range(6)), range(4))},
        "worker_init_fn": {"dataset": Transformed(), "worker_init_fn": lambda _id: rng.random()},
    }


@pytest.mark.parametrize("how", loaders())
def test_a_generator_that_workers_copy_is_refused(how, tmp_path):
    model, optimizer, _ = parts()
    loader = DataLoader(**loaders()[how], batch_size=2, num_workers=1)
    config = SessionConfig(save_dir=tmp_path)
    with (
        Session(model, optimizer, None, loader, config=config) as training,
        pytest.raises(ConfigError, match="is a generator in the loader's workers"),
    ):
        training.fit(steps=1)

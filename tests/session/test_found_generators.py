"""Where generators of the user's code are found, and which iterators have a position to lose."""

from __future__ import annotations

import itertools
import random
import types
from collections.abc import Callable
from dataclasses import replace
from random import gauss
from typing import Any

import numpy as np
import pytest
import torch
from numpy.random import standard_normal
from torch import nn
from torch.optim.lr_scheduler import LambdaLR, LRScheduler, SequentialLR
from torch.utils.data import DataLoader, Dataset, random_split

from midstep.data.random_state import find_generators
from midstep.session.config import SessionConfig
from midstep.session.engine.resume import training_fingerprints
from midstep.session.state.generators import GeneratorSearch, UserGenerators, search_parts
from midstep.session.state.training_parts import TrainingParts
from tests.checkers import own_noise
from tests.checkers.matrix import Drawing, Noisy, Slots

RNG = random.Random(0)


def drawing() -> Callable[..., float]:
    rng = np.random.default_rng(0)
    return lambda *_given: rng.random()


class Settings:
    """Not an object, but a class that the code names."""

    rng = random.Random(1)

    @classmethod
    def draw(cls) -> float:
        return cls.rng.random()


class AddNoise(torch.autograd.Function):
    @staticmethod
    def forward(_ctx: Any, x: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        return x + RNG.random()


class SamplingNoise(nn.Module):
    """Not called: its owner uses another method of it."""

    def sample(self, x: torch.Tensor) -> torch.Tensor:
        return x + RNG.random()


class UsesSubmodule(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.noise = SamplingNoise()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.noise.sample(x)  # type: ignore[no-any-return]


class DrawingStep(torch.optim.SGD):
    """Its step reaches the generator through a method of its own."""

    def step(self, closure: Any = None) -> Any:
        self.draw()
        return super().step(closure)

    def draw(self) -> float:
        return RNG.random()


class DrawingRate(LRScheduler):
    def get_lr(self) -> list[float]:  # type: ignore[override]
        return [each["lr"] + 0 * RNG.random() for each in self.optimizer.param_groups]


class Jitter:
    """A transform with a generator of its own."""

    def __init__(self) -> None:
        self.rng = random.Random(5)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.rng.random()


class Compose:
    """As torchvision has it: transforms in a list."""

    def __init__(self, transforms: list[Any]) -> None:
        self.transforms = transforms

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        for each in self.transforms:
            x = each(x)
        return x


class Transformed(Dataset[torch.Tensor]):
    def __init__(self, transform: Any) -> None:
        self.transform = transform

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.transform(torch.tensor(float(index)))  # type: ignore[no-any-return]


class Trainer:
    """Its step reaches the generator through an object in an attribute."""

    def __init__(self) -> None:
        self.box = Drawing()

    def step(self, _model: Any, _batch: Any) -> float:
        return self.box.noise()


def with_backward_hook() -> nn.Module:
    layer, draw = nn.Linear(2, 2), drawing()
    layer.register_full_backward_hook(lambda _module, given, _output: (given[0] * draw(),))
    return nn.Sequential(layer)


def with_gradient_hooks(method: str) -> nn.Module:
    layer, draw = nn.Linear(2, 2), drawing()
    getattr(layer.weight, method)(lambda grad: grad * draw())
    return nn.Sequential(layer)


def with_attribute() -> Callable[[], Any]:
    def step() -> None:
        return None

    step.rng = random.Random(2)  # type: ignore[attr-defined]
    return step


def by_module() -> float:
    return own_noise.draw()


def by_attribute_of_module() -> float:
    return own_noise.rng.random()


def by_class() -> float:
    return Settings.rng.random()


def by_class_method() -> float:
    return Settings.draw()


def by_autograd(x: torch.Tensor) -> Any:
    return AddNoise.apply(x)


def by_object() -> Callable[[], float]:
    trainer = Trainer()
    return lambda: 2 * trainer.box.noise()


PLACES: dict[str, Callable[[], Any]] = {
    "a module of the user's": lambda: by_module,
    "an attribute of a module of the user's": lambda: by_attribute_of_module,
    "slots": Slots,
    "a global of a method": lambda: Drawing().noise,
    "a global of a method of an attribute": lambda: Trainer().step,
    "a method of an object in a closure": by_object,
    "a class that a function names": lambda: by_class,
    "a class method": lambda: by_class_method,
    "a method of a submodule": UsesSubmodule,
    "an autograd function": lambda: by_autograd,
    "a backward hook of a module": with_backward_hook,
    "a hook of a gradient": lambda: with_gradient_hooks("register_hook"),
    "a hook after a gradient": lambda: with_gradient_hooks("register_post_accumulate_grad_hook"),
    "an attribute of a function": with_attribute,
    "the function of a map": lambda: map(drawing(), [1, 2]),
    "the source of an enumerate": lambda: enumerate(iter([drawing()])),
    "a map in a chain": lambda: itertools.chain(map(drawing(), [1, 2])),
}


@pytest.mark.parametrize("make", PLACES.values(), ids=PLACES.keys())
def test_a_generator_is_found_in(make):
    search = GeneratorSearch()
    search.look_at("value", make())
    assert len({id(each) for each in search.generators.values()}) == 1
    assert not search.unsaved


NAMED: dict[str, Callable[[], Any]] = {
    "a function of random": lambda: [lambda: gauss(0, 1)],
    "a function of numpy": lambda: [lambda: standard_normal(3)],
    "random_split": lambda: [lambda: random_split(range(3), [1, 2])],
    "a global generator": lambda: [torch.default_generator],
}


@pytest.mark.parametrize("make", NAMED.values(), ids=NAMED.keys())
def test_a_global_generator_is_none_of_the_users(make):
    """A snapshot has it already, and restores it where the epoch needs it."""
    search = GeneratorSearch()
    search.look_at("value", make())
    assert not search.generators
    assert not find_generators(*make())


@pytest.mark.parametrize(("folder", "count"), [("/home/me", 1), ("/venv/site-packages", 0)])
def test_only_modules_that_are_not_installed_are_followed(folder, count):
    module = types.ModuleType("noise")
    module.__file__ = f"{folder}/noise.py"
    module.rng = random.Random(0)  # type: ignore[attr-defined]
    search = GeneratorSearch()
    search.look_at("step", eval("lambda: noise.rng.random()", {"noise": module, "__name__": "s"}))
    assert len(search.generators) == count


def parts(**given: Any) -> TrainingParts:
    model = nn.Linear(2, 1)
    optimizer = given.pop("optimizer", torch.optim.SGD)(model.parameters(), lr=0.1)
    return TrainingParts(model=model, optimizers=[optimizer], train_loader=None, **given)


def test_two_hooks_with_the_same_path_are_both_kept():
    one = parts()
    for _ in range(2):
        rng = np.random.default_rng(0)
        one.optimizer.register_step_pre_hook(lambda *_given, rng=rng: rng.random())
        one.optimizer.register_step_post_hook(lambda *_given, rng=rng: None)
        one.model.register_forward_hook(drawing())
        one.model.register_forward_pre_hook(drawing())
    found = UserGenerators()
    found.add(search_parts(one, []).generators)
    assert len(found.generators) == 6
    assert found.add({"model.hook_0.rng": random.Random(1)})  # of the loop: another one
    assert len(found.generators) == 7


def test_what_an_optimizer_keeps_is_searched_and_its_parts_are_no_alarm():
    one = parts(optimizer=Noisy)
    one.optimizer.inner = torch.optim.SGD(one.model.parameters(), lr=0.1)  # type: ignore[attr-defined]
    one.optimizer.teacher = nn.Linear(1, 1)  # type: ignore[attr-defined]
    search = search_parts(one, [])
    assert list(search.generators) == ["optimizer.generator"]
    assert not search.unsaved
    assert [*search.modules] == ["model"]


def test_the_step_of_the_users_optimizer_is_searched():
    search = search_parts(parts(optimizer=DrawingStep), [])
    assert [id(each) for each in search.generators.values()] == [id(RNG)]
    assert not search.unsaved


def test_the_rates_of_the_users_scheduler_are_searched():
    one = parts()
    one.scheduler = DrawingRate(one.optimizer)
    search = search_parts(one, [])
    assert [id(each) for each in search.generators.values()] == [id(RNG)]
    assert not search.unsaved


def test_the_functions_of_nested_schedulers_are_searched():
    one = parts()
    inner = [LambdaLR(one.optimizer, drawing()), LambdaLR(one.optimizer, drawing())]
    one.scheduler = SequentialLR(one.optimizer, inner, milestones=[3])
    search = search_parts(one, [])
    assert len(search.generators) == 2
    assert not search.unsaved


LOADER = DataLoader(torch.zeros(4, 1))
RUNNING: dict[str, Callable[[], Any]] = {
    "iter": lambda: iter(LOADER),
    "cycle": lambda: itertools.cycle(LOADER),
    "map": lambda: map(drawing(), LOADER),
    "enumerate": lambda: enumerate(LOADER),
    "zip": lambda: zip([1], LOADER, strict=False),
    "islice": lambda: itertools.islice(LOADER, 2),
    "chain": lambda: itertools.chain(LOADER, LOADER),
    "chain of a list": lambda: itertools.chain.from_iterable([LOADER] * 3),
    "enumerate of a chain": lambda: enumerate(itertools.chain([1], LOADER)),
    "map of a cycle": lambda: map(tuple, itertools.cycle(LOADER)),
}


@pytest.mark.parametrize("begin", RUNNING.values(), ids=RUNNING.keys())
def test_a_running_pass_is_named(begin):
    search = GeneratorSearch()
    search.look_at("value", begin())
    assert [*search.unsaved] == ["value"]


def test_looking_into_an_iterator_moves_nothing():
    pass_ = enumerate(itertools.chain(map(abs, [1, 2]), iter([3])))
    search = GeneratorSearch()
    search.look_at("value", pass_)
    assert [*pass_] == [(0, 1), (1, 2), (2, 3)]
    assert not search.unsaved


@pytest.mark.parametrize(
    "value",
    [zip([1], [2], strict=True), itertools.count(), [LOADER], (iter([1]), LOADER), LOADER],
    ids=["zip", "count", "list", "tuple", "loader"],
)
def test_an_iterator_without_a_pass_is_no_alarm(value):
    search = GeneratorSearch()
    search.look_at("value", value)
    assert not search.unsaved


def test_the_fingerprint_of_a_dataset_moves_no_generator_of_its_transforms():
    jitter = Jitter()
    loader = DataLoader(Transformed(Compose([Compose([jitter])])), batch_size=2)
    before, expected = jitter.rng.getstate(), random.Random(5).getstate()
    training_fingerprints(replace(parts(), train_loader=loader), SessionConfig())
    assert jitter.rng.getstate() == before == expected

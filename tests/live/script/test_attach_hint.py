"""The lines that `midstep run` prints name all that a resume needs, as the script calls it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader

import midstep
from midstep.live.script.attach_hint import attach_hint
from midstep.live.script.program.script_command import ScriptCommand
from midstep.live.script.script_modules import parameters_of
from midstep.live.script.script_names import ScriptNames

SCRIPT = ScriptCommand(target="folder/train.py")


def hint_here(
    optimizers: list[torch.optim.Optimizer],
    loader: DataLoader | None = None,
    command: ScriptCommand = SCRIPT,
    **tensors: torch.Tensor,
) -> tuple[list[str], Callable[[], Any]]:
    """The hint for the calling function, and what evaluates its call with its variables."""
    frame = inspect.currentframe().f_back
    variables = {**frame.f_locals, "midstep": midstep}
    names = ScriptNames(frame)
    roots = names.roots(parameters_of(optimizers))
    order = id(loader.batch_sampler) if loader is not None else None
    lines = attach_hint(command, names, roots, tensors, optimizers, names.loader(order))

    def attach():
        return eval(lines[2].strip().removeprefix("with ").removesuffix(" as run:"), variables)

    return lines, attach


def test_the_call_declares_every_module_optimizer_and_scheduler(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    net_d, net_g = nn.Linear(2, 1), nn.Linear(1, 2)
    train_d = torch.optim.SGD(net_d.parameters(), lr=0.1)
    train_g = torch.optim.SGD(net_g.parameters(), lr=0.2)
    schedule = torch.optim.lr_scheduler.StepLR(train_d, 1)
    validation = DataLoader(torch.ones(4, 2))
    loader = DataLoader(torch.ones(4, 2))
    lines, attach = hint_here([train_d, train_g], loader)
    assert validation.dataset is not loader.dataset
    assert lines[3] == "        for epoch in run.epochs(number_of_epochs):"
    with attach() as run:
        assert run.dir.name == "train"
        parts = run._loop._engine.state.parts
        assert parts.optimizers == [train_d, train_g]
        assert list(parts.optimizer_names) == ["train_d", "train_g"]
        assert (parts.scheduler, parts.train_loader) == (schedule, loader)
        assert set(parts.model.children()) == {net_d, net_g}


class Trainer:
    """Has all parts in attributes, as trainer classes have."""

    def __init__(self):
        self.nets = {"policy": nn.Linear(2, 1), "value": nn.Linear(2, 1)}
        self.opts = [torch.optim.SGD(net.parameters(), lr=0.1) for net in self.nets.values()]
        self.scaler = torch.amp.GradScaler("cpu")
        self.loaders = {"valid": DataLoader(torch.ones(6, 2)), "train": DataLoader(torch.ones(4))}

    def hint(self, command):
        return hint_here(self.opts, self.loaders["train"], command)


def test_parts_in_attributes_and_containers_are_written_as_code(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    trainer = Trainer()
    lines, attach = trainer.hint(ScriptCommand(target="package.train", is_module=True))
    assert (
        "these lines in the method Trainer.hint of package.train, or around its call with trainer "
        "in place of self, add both" in lines[0]
    )
    with attach() as run:
        assert run.dir.name == "train"
        parts = run._loop._engine.state.parts
        assert set(parts.model.children()) == set(trainer.nets.values())
        assert parts.optimizers == trainer.opts
        assert parts.scaler is trainer.scaler
        assert parts.train_loader is trainer.loaders["train"]


class Agent:
    """Trains itself, inside of the loop of another object."""

    def __init__(self):
        self.net = nn.Linear(2, 1)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)

    def update(self, get_loader):
        return self.step(get_loader)

    def step(self, get_loader):
        return hint_here([self.optimizer], get_loader())


class Loop:
    def __init__(self):
        self.agent, self.loader = Agent(), DataLoader(torch.ones(4))

    def fit(self):
        return self.agent.update(lambda: self.loader)


def test_lines_with_self_name_the_method_where_self_is_known():
    assert "these lines in train.py add both" in hint_of_a_function()[0]
    (first, _, call, *_), _ = Agent().update(lambda: None)
    assert "these lines in the method Agent.update of train.py add both" in first
    assert "midstep.attach(self.net, self.optimizer, run_name=" in call


def test_a_self_of_another_method_is_named_too():
    (first, *_), _ = Loop().fit()
    assert "the method Agent.update of train.py (self.loader is that of Loop.fit) add both" in first


def hint_of_a_function():
    net = nn.Linear(2, 1)
    return hint_here([torch.optim.SGD(net.parameters(), lr=0.1)])[0]


class Wrapper:
    def __init__(self, optimizer):
        self.optimizer = optimizer


def test_an_optimizer_that_a_library_holds_is_named_by_what_wraps_it_or_not_at_all():
    source = (
        "def train(hint, self):\n    optimizer = self.optimizer\n    return hint([optimizer])\n"
    )
    library = dict[str, Any]()
    exec(compile(source, "site-packages/library.py", "exec"), library)
    net = nn.Linear(2, 1)
    library_train = library["train"]
    stepper = Wrapper(torch.optim.SGD(net.parameters(), lr=0.1))
    lines, _ = library_train(hint_here, stepper)
    assert "midstep.attach(net, stepper, run_name=" in lines[2]
    lines, _ = library_train(hint_here, Wrapper(torch.optim.SGD(net.parameters(), lr=0.1)))
    assert lines == [
        "going back and resuming need midstep.attach around a loop of the script; here a library "
        "has the loop, the optimizer is not a variable of train.py"
    ]


def test_several_schedulers_are_declared_as_extra_state():
    net = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    warmup = torch.optim.lr_scheduler.LinearLR(optimizer)
    decay = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    lines, _ = hint_here([optimizer])
    assert warmup is not decay
    assert 'extra_state={"decay": decay, "warmup": warmup}' in lines[2]
    assert lines[3] == "        for step in run.steps(number_of_steps):"


def test_tensors_without_a_module_are_named_in_place_of_a_call_that_fails():
    weight = torch.zeros(2, requires_grad=True)
    (line,) = hint_here([torch.optim.SGD([weight], lr=0.1)], weight=weight)[0]
    assert line.endswith("now no module owns weight")

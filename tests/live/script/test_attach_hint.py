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
from midstep.live.script.found_modules import parameters_of
from midstep.live.script.script_names import ScriptNames


def hint_here(
    optimizers: list[torch.optim.Optimizer], **tensors: torch.Tensor
) -> tuple[list[str], Callable[[str], Any]]:
    """The hint for the calling function, and what evaluates code with its variables."""
    frame = inspect.currentframe().f_back
    variables = {**frame.f_locals, "midstep": midstep}
    names = ScriptNames(frame)
    roots = names.roots(parameters_of(optimizers))
    lines = attach_hint("folder/train.py", names, roots, tensors, optimizers)
    return lines, lambda code: eval(code, variables)


def test_the_call_declares_every_module_optimizer_and_scheduler(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    net_d, net_g = nn.Linear(2, 1), nn.Linear(1, 2)
    train_d = torch.optim.SGD(net_d.parameters(), lr=0.1)
    train_g = torch.optim.SGD(net_g.parameters(), lr=0.2)
    schedule = torch.optim.lr_scheduler.StepLR(train_d, 1)
    loader = DataLoader(torch.ones(4, 2))
    lines, evaluate = hint_here([train_d, train_g])
    assert lines[3] == "        for epoch in run.epochs(number_of_epochs):"
    with evaluate(lines[2].strip().removeprefix("with ").removesuffix(" as run:")) as run:
        assert run.dir.name == "train"
        parts = run._loop._engine.state.parts
        assert parts.optimizers == [train_d, train_g]
        assert list(parts.optimizer_names) == ["train_d", "train_g"]
        assert (parts.scheduler, parts.train_loader) == (schedule, loader)
        assert set(parts.model.children()) == {net_d, net_g}


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

"""Several models and optimizers, arrays, pairs and environments: resumed, taken back, or named."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

from midstep import env_state
from midstep.core.errors import ConfigError, MidstepError
from midstep.facts import FactsReader
from midstep.live import AttachedRun, attach
from midstep.session.state.state_tree import UnsavableError
from tests.checkers.neutral import wait_until
from tests.live.test_attach import parked_at
from tests.live.test_back import ask, never_due
from tests.live.trainer import Plain, in_thread

STEPS = 9


class CutError(Exception):
    """The process ends here, as far as the disk can tell."""


class Walk:
    """An environment whose episodes end after four steps."""

    def __init__(self) -> None:
        self.np_random = np.random.default_rng(6)
        self.at, self.left = np.zeros(3, dtype="f4"), 4

    def reset(self) -> np.ndarray[Any, Any]:
        self.at, self.left = self.np_random.standard_normal(3).astype("f4"), 4
        return self.at

    def step(self, action: float) -> tuple[np.ndarray[Any, Any], bool]:
        self.at = self.at * 0.9 + self.np_random.standard_normal(3).astype("f4") * action
        self.left -= 1
        return self.at, self.left == 0


class Simulated(Walk):
    """Its world is in an object that nobody can save."""

    def __init__(self) -> None:
        super().__init__()
        self.world = threading.Lock()


class Adversaries:
    """Two nets with an optimizer each, a replay buffer, a running mean, and an environment."""

    def __init__(self, save_dir: Path, env: Any = None, kind: type = dict) -> None:
        torch.manual_seed(2)
        self.nets = {"G": nn.Linear(3, 3), "D": nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 1))}
        self.optimizers = {
            "G": torch.optim.Adam(self.nets["G"].parameters(), lr=1e-2),
            "D": torch.optim.SGD(self.nets["D"].parameters(), lr=1e-2, momentum=0.9),
        }
        self.buffer, self.marks = np.zeros((STEPS, 3), dtype="f4"), torch.zeros(4, 2)
        self.env, self.mean, self.save_dir, self.kind = env or Walk(), 0.0, save_dir, kind
        self.loader = DataLoader(range(STEPS), batch_size=None)  # type: ignore[arg-type]
        self.losses: dict[int, str] = {}

    def set_mean(self, mean: float) -> None:
        self.mean = mean

    def given(self, parts: dict[str, Any]) -> Any:
        return parts if self.kind is dict else list(parts.values())

    def attach(self, **settings: Any) -> AttachedRun:
        return attach(
            self.given(self.nets),
            self.given(self.optimizers),
            self.loader,
            extra_state={
                "buffer": self.buffer,
                "marks": self.marks[1:3],
                "mean": (lambda: self.mean, self.set_mean),
                "env": env_state(self.env),
            },
            save_dir=self.save_dir,
            **{"run_name": "run", "resume": "auto", "checkpoint_every_steps": 1} | settings,
        )

    def train(self, run: AttachedRun, cut_at: int | None = None) -> None:
        for _ in run.epochs(1):
            for index in self.loader:
                if index == cut_at:
                    raise CutError
                run.log(loss=self.step(int(index)))

    def step(self, index: int) -> torch.Tensor:
        seen, done = self.env.step(0.5)
        self.buffer[index] = seen
        self.marks[1:3] += 1
        if done:
            self.env.reset()
        x = torch.from_numpy(self.buffer[: index + 1])
        loss = self.nets["D"](self.nets["G"](x)).square().mean() + self.mean
        self.mean = 0.9 * self.mean + 0.01 * float(loss.detach())
        loss.backward()
        for optimizer in (self.optimizers["D"], self.optimizers["G"]):  # the clock comes last
            optimizer.step()
            optimizer.zero_grad()
        self.losses[index] = float(loss.detach()).hex()
        return loss

    def weights(self) -> list[bytes]:
        nets = [each.numpy().tobytes() for net in self.nets.values() for each in values(net)]
        return [*nets, self.buffer.tobytes(), self.marks.numpy().tobytes()]


def values(net: nn.Module) -> Iterator[torch.Tensor]:
    yield from net.state_dict().values()


def whole(tmp_path: Path, kind: type = dict) -> Adversaries:
    training = Adversaries(tmp_path / "whole", kind=kind)
    with training.attach() as run:
        training.train(run)
    return training


def interventions(run_dir: Path, kind: str) -> list[dict[str, Any]]:
    return [each for each in FactsReader(run_dir).events() if each.get("kind") == kind]


@pytest.mark.parametrize("kind", [dict, list])
def test_all_parts_resume_bit_for_bit(tmp_path: Path, kind: type) -> None:
    expected = whole(tmp_path, kind)
    cut = Adversaries(tmp_path, kind=kind)
    with pytest.raises(CutError), cut.attach(on_error="raise") as run:
        cut.train(run, cut_at=5)
    resumed = Adversaries(tmp_path, kind=kind)
    with resumed.attach() as run:
        resumed.train(run)
    assert {**cut.losses, **resumed.losses} == expected.losses
    assert resumed.weights() == expected.weights()
    assert resumed.mean == expected.mean
    assert not interventions(tmp_path / "run", "inexact")
    manifest = json.loads((tmp_path / "run/last/manifest.json").read_text())
    names = {name.rpartition(".")[0] for name in manifest["tensors"]}
    if kind is dict:
        named = {"model.G", "model.D.0", "optimizer.G.state.0", "optimizer.D.state.0"}
        header = FactsReader(tmp_path / "run").events()[0]["config"]
        assert header["optimizers"] == ["Adam (G)", "SGD (D)"]
        assert header["model"] == "Linear (G), Sequential (D)"
    else:
        named = {"model.0", "model.1.0", "optimizer.state.0", "optimizer.1.state.0"}
    assert named <= names


def go_back(training: Adversaries, n: int, *, repeat: bool) -> dict[str, Any]:
    """Train five steps, go back `n`, and on to the end; the answer."""
    attached = training.attach(start_paused=True)
    control = attached.controller
    with in_thread(attached, training.train):
        wait_until(control, parked_at(0))
        if repeat:
            never_due(attached._loop._engine.rewind.ring)
        control.run_until(step=6)
        wait_until(control, parked_at(6))
        answer = ask(control, "back", n=n)
        wait_until(control, parked_at(6 - n))
        control.resume()
        wait_until(control, lambda state: state["state"] == "finished")
    return dict(answer)


@pytest.mark.parametrize("repeat", [False, True], ids=["from the ring", "by repeating"])
def test_all_parts_go_back_bit_for_bit(tmp_path: Path, repeat: bool) -> None:
    expected, training = whole(tmp_path), Adversaries(tmp_path)
    buffer = training.buffer
    assert go_back(training, 3, repeat=repeat)["exact"] is True
    assert training.losses == expected.losses
    assert training.weights() == expected.weights()
    assert training.buffer is buffer  # restored in place


@pytest.mark.parametrize("repeat", [False, True], ids=["from the ring", "by repeating"])
def test_an_environment_with_more_than_attributes_is_inexact_and_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], repeat: bool
) -> None:
    training = Adversaries(tmp_path, Simulated())
    answer = go_back(training, 3, repeat=repeat)
    assert answer["exact"] is False
    assert "extra_state.env.world cannot be saved" in answer["text"]
    assert "until the next reset" in answer["text"]
    reasons = [each["reason"] for each in interventions(tmp_path / "run", "inexact")]
    told = [each for each in reasons if "extra_state.env.world cannot be saved" in each]
    assert len(told) == 2  # when it began, and when it went back
    assert capsys.readouterr().err.count("extra_state.env.world cannot be saved") >= 2


class Locked:
    def state_dict(self) -> dict[str, Any]:
        return {"inner": [1, threading.Lock()]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        raise AssertionError(state)


def test_what_cannot_be_saved_is_refused_with_its_path_before_a_run_is_made(
    tmp_path: Path,
) -> None:
    for extra, words in (
        ({"own": Locked()}, r"extra_state\.own\.inner\.1 is a _thread\.lock"),
        ({"own": (Locked, print)}, r"extra_state\.own is a .*Locked"),
        ({"own": np.array([object()])}, r"extra_state\.own is a NumPy value of type object"),
    ):
        with (
            pytest.raises(UnsavableError, match=words),
            attach(*Plain().parts, extra_state=extra, save_dir=tmp_path),
        ):
            pass
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("model", "optimizer", "words"),
    [
        ({}, None, "model must be a torch module, or a dict or list of them, got an empty dict"),
        ({"D": 3}, None, "got int"),
        ({"a.b": nn.Linear(1, 1)}, None, "'a.b'.*a name without dots"),
        ({"train": nn.Linear(1, 1)}, None, "cannot use that name"),
        (nn.Linear(1, 1), [], "optimizer must be a torch optimizer, .* got an empty list"),
        (nn.Linear(1, 1), {"D": nn.Linear(1, 1)}, "got Linear"),
    ],
)
def test_a_wrong_model_or_optimizer_is_refused(
    model: Any, optimizer: Any, words: str, tmp_path: Path
) -> None:
    plain = Plain()
    given = plain.optimizer if optimizer is None else optimizer
    with pytest.raises(ConfigError, match=words):
        attach(model, given, plain.loader, save_dir=tmp_path)


def test_an_array_of_another_shape_is_refused_at_the_resume(tmp_path: Path) -> None:
    first, second = Adversaries(tmp_path), Adversaries(tmp_path)
    with first.attach() as run:
        first.train(run)
    second.buffer = np.zeros((2, 3), dtype="f4")
    with pytest.raises(MidstepError, match=r"extra_state\['buffer'\] is a ndarray of shape \(2, 3"):
        second.attach().start()

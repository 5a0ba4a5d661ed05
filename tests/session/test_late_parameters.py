"""Parameters that exist only after the first forward pass: trained, saved, resumed, taken back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from midstep.core.errors import ConfigError, ControlError
from midstep.live import attach
from midstep.session import Session, SessionConfig
from midstep.session.checkpoint.fingerprint import hash_value
from tests.session.test_back import driven

STEPS = 6


class Scaled(nn.Module):
    """Creates a parameter and a buffer in its first forward pass."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(3, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not hasattr(self, "scale"):
            self.scale = nn.Parameter(torch.ones(2))
            self.register_buffer("calls", torch.zeros(()))
        self.calls += 1
        return self.inner(x) * self.scale


def lazy() -> nn.Module:
    return nn.Sequential(nn.LazyLinear(4), nn.ReLU(), nn.LazyBatchNorm1d(), nn.LazyLinear(2))


MODELS = {"lazy": lazy, "created in forward": Scaled}


class Training:
    """The same training each time it is built."""

    def __init__(self, folder: Path, model: str, **config: Any) -> None:
        torch.manual_seed(0)
        self.model = MODELS[model]()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        data = TensorDataset(torch.randn(12, 3), torch.randint(2, (12,)))
        self.loader = DataLoader(data, batch_size=2, shuffle=True)
        self.folder = folder
        self.config = {"run_name": "run", "resume": "auto"} | config

    def session(self, settings: dict[str, Any]) -> Session:
        parts = self.model, self.optimizer, nn.CrossEntropyLoss(), self.loader
        return Session(*parts, config=SessionConfig(**self.config | settings))

    def in_session(self, steps: int) -> str:
        with self.session({"save_dir": self.folder}) as session:
            session.fit(steps=steps)
        return self.digest()

    def attached(self, steps: int) -> str:
        parts = self.model, self.optimizer, self.loader
        with attach(*parts, save_dir=self.folder, **self.config) as run:
            for _ in run.epochs(9):
                for x, y in self.loader:
                    loss = nn.functional.cross_entropy(self.model(x), y)
                    loss.backward()
                    self.optimizer.step()
                    self.optimizer.zero_grad()
                    run.log(loss=loss)
                    if run.step + 1 == steps:
                        run.controller.stop()
        return self.digest()

    def digest(self) -> str:
        return hash_value(dict(self.model.state_dict()))


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("driver", ["in_session", "attached"])
def test_they_are_trained_saved_and_resumed_bit_for_bit(tmp_path, model, driver):
    whole = getattr(Training(tmp_path / "whole", model), driver)(STEPS)
    getattr(Training(tmp_path, model), driver)(STEPS - 2)
    assert getattr(Training(tmp_path, model), driver)(STEPS) == whole


def test_lazy_parameters_need_no_resume(tmp_path):
    Training(tmp_path, "lazy", resume="never").attached(2)
    Training(tmp_path / "other", "lazy", resume="never").in_session(2)


def test_a_step_from_before_a_parameter_was_created_cannot_be_reached(tmp_path):
    training = Training(tmp_path, "created in forward")
    with driven(training.session, tmp_path) as run:
        run.ask("step", n=2)
        before = training.digest()
        with pytest.raises(ControlError, match="before forward created scale"):
            run.session.back(2)
        assert (training.digest(), run.session.trainer.step) == (before, 2)


def test_a_reset_of_a_model_that_was_lazy_is_refused(tmp_path):
    training = Training(tmp_path, "lazy")
    with driven(training.session, tmp_path) as run:
        run.ask("step", n=1)
        before = training.digest()
        run.ask("step", n=1)
        with pytest.raises(ControlError, match="no state before step 0"):
            run.ask("reset_session")
        run.session.back(1)
        assert training.digest() == before


def test_a_parameter_that_forward_adds_to_the_optimizer_is_refused_by_name_at_a_resume(tmp_path):
    class Growing(Scaled):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            is_new = not hasattr(self, "scale")
            output = super().forward(x)
            if is_new:
                training.optimizer.add_param_group({"params": [self.scale]})
            return output

    training = Training(tmp_path, "lazy")
    for attempt in range(2):
        torch.manual_seed(0)
        training.model = Growing()
        training.optimizer = torch.optim.SGD(training.model.parameters(), lr=0.1)
        if attempt == 0:
            training.in_session(2)
            continue
        with pytest.raises(ConfigError, match=r"groups of \[2, 1\] parameters, this one of \[2\]"):
            training.in_session(4)

"""Both drivers do the same things in the same order at every step boundary."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

from midstep.control.boundary import StepBoundary
from midstep.data.order.ordered_loader import OrderedLoader
from midstep.live import attach
from midstep.session import Session, SessionConfig
from midstep.session.engine.training_engine import TrainingEngine
from midstep.session.step_report import StepReporter
from tests.live.trainer import Plain

ORDER = ("commit", "report", "step_finished", "wait_if_paused")
"""As `session.engine.training_engine` promises it."""
STEPS = 4


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the calls that make up a boundary, as they come."""
    recorded: list[str] = []
    owners = (OrderedLoader, StepReporter, TrainingEngine, StepBoundary)
    for owner, name in zip(owners, ORDER, strict=True):
        original = getattr(owner, name)

        def record(*arguments, _name=name, _original=original, **named):
            recorded.append(_name)
            return _original(*arguments, **named)

        monkeypatch.setattr(owner, name, record)
    return recorded


def test_a_session_meets_its_boundaries_in_this_order(tmp_path: Path, calls: list[str]) -> None:
    model = nn.Linear(2, 1)
    loader = DataLoader([(torch.ones(2), torch.ones(1))] * STEPS)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    config = SessionConfig(save_dir=tmp_path)
    with Session(model, optimizer, nn.MSELoss(), loader, config=config) as session:
        session.fit(steps=STEPS)
    assert calls == [*ORDER] * STEPS


def test_an_attached_loop_meets_its_boundaries_in_this_order(
    tmp_path: Path, calls: list[str]
) -> None:
    plain = Plain(4 * STEPS)
    with attach(*plain.parts, save_dir=tmp_path) as run:
        for x, _y in plain.loader:
            run.log(loss=plain.step(x))
    assert calls == [*ORDER] * STEPS

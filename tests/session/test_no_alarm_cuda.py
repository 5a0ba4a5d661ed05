"""Kernels of a GPU that add in any order: repeated steps are exact or close, never an alarm."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from midstep.facts import FactsReader
from midstep.live import attach
from midstep.session import Session, SessionConfig
from tests.checkers.neutral import wait_until
from tests.checkers.resume import Killed
from tests.live.test_attach import parked_at
from tests.live.test_back import ask, never_due
from tests.live.trainer import in_thread

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="needs a CUDA device; run where there is one"
)
ROWS, WIDTH, GROUPS, BATCH = 20_000, 32, 50, 4
NO_ALARM = {"exact", "close"}


class Scattered(nn.Module):
    """Sums many rows into few by `index_add_`, which adds atomically, in another order each time.

    The sums are large and nearly cancel, so the order changes more than the last bit.
    """

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = self.first(x).repeat_interleave(ROWS // BATCH, 0)
        scale = torch.linspace(-100, 100, len(rows), device=x.device)[:, None]
        groups = torch.arange(len(rows), device=x.device) % GROUPS
        sums = torch.zeros(GROUPS, WIDTH, device=x.device).index_add(0, groups, rows * scale)
        pooled: torch.Tensor = self.last(sums.mean(0) / ROWS + self.first(x))
        return pooled


def parts(seed: int = 0) -> tuple[nn.Module, torch.optim.Optimizer, DataLoader[Any]]:
    torch.manual_seed(seed)
    model = Scattered().cuda()
    data = TensorDataset(torch.randn(64, WIDTH, device="cuda"), torch.randn(64, 1, device="cuda"))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    return model, optimizer, DataLoader(data, batch_size=BATCH, shuffle=True)


def gradient() -> torch.Tensor:
    model, _, loader = parts()
    x, y = next(iter(loader))
    nn.functional.mse_loss(model(x), y).backward()
    return torch.cat([p.grad.flatten() for p in model.parameters()])  # type: ignore[union-attr]


def test_the_training_is_not_deterministic():
    first = gradient()
    assert any(not torch.equal(first, gradient()) for _ in range(20))


def session(folder: Any, **settings: Any) -> Session:
    model, optimizer, loader = parts()
    config = SessionConfig(
        save_dir=str(folder), run_name="run", data_order_policy="epoch_reseed", seed=1,
        checkpoint_epochs=False, **settings,
    )  # fmt: skip
    return Session(model, optimizer, nn.MSELoss(), loader, config=config)


def verdicts(folder: Any) -> list[str | None]:
    events = FactsReader(folder / "run").events()
    return [each["verdict"] for each in events if each.get("kind") == "repeated_steps"]


def test_a_resumed_and_rewound_session_gives_no_alarm(tmp_path):
    with session(tmp_path, resume="auto", checkpoint_every_steps=10) as first:

        @first.on_step
        def end(record: Any) -> None:
            if record.step == 38:
                raise Killed

        with pytest.raises(Killed):
            first.fit(steps=60)
    second = session(tmp_path, resume="must")
    control = second.controller
    control.pause()
    thread = threading.Thread(target=second.fit, kwargs={"steps": 60}, name="training")
    thread.start()
    wait_until(control, parked_at(30))
    control.run_until(step=55)
    wait_until(control, parked_at(55))
    second.back(20)
    control.stop()
    thread.join()
    second.close()
    assert len(verdicts(tmp_path)) == 2
    assert set(verdicts(tmp_path)) <= NO_ALARM


def test_an_attached_loop_gives_no_alarm(tmp_path):
    model, optimizer, loader = parts()
    run = attach(model, optimizer, loader, save_dir=tmp_path, run_name="run", start_paused=True)

    def train(running: Any) -> None:
        for _epoch in running.epochs(3):
            for x, y in loader:
                loss = nn.functional.mse_loss(model(x), y)
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                running.log(loss=loss)

    control = run.controller
    with in_thread(run, train):
        wait_until(control, parked_at(0))
        never_due(run._loop._engine.rewind.ring)
        control.run_until(step=12)
        wait_until(control, parked_at(12))
        answer = ask(control, "back", n=2)
        wait_until(control, parked_at(10))
    assert answer["verdict"] in NO_ALARM
    with attach(model, optimizer, loader, save_dir=tmp_path, run_name="run", resume="must") as run:
        train(run)
    assert set(verdicts(tmp_path)) - {None} <= NO_ALARM

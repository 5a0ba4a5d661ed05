"""All pairs of verbs and commands in both orders, with random delays: done or a clear refusal."""

from __future__ import annotations

import random
import threading
from itertools import product
from pathlib import Path

import pytest
import torch

from midstep.control import Command
from midstep.core.errors import ControlError
from midstep.facts import FactsReader
from midstep.session import Session, SessionConfig

ASKED = ("pause", "resume", "step", "stop", "back", "save_checkpoint")
TIMEOUT_S = 60.0


def make(folder: Path) -> Session:
    model = torch.nn.Linear(2, 1)
    data = torch.utils.data.TensorDataset(torch.ones(8, 2), torch.ones(8, 1))
    return Session(
        model,
        torch.optim.SGD(model.parameters(), lr=0.01),
        torch.nn.MSELoss(),
        torch.utils.data.DataLoader(data, batch_size=4),
        config=SessionConfig(save_dir=folder),
    )


@pytest.mark.parametrize("first", ASKED)
@pytest.mark.parametrize(
    "rounds", [1, pytest.param(20, marks=[pytest.mark.soak, pytest.mark.timeout(600)])]
)
def test_every_pair_is_done_or_refused_and_the_run_ends(first, rounds, tmp_path):
    chance = random.Random(f"{first} {rounds}")
    for number, second in product(range(rounds), ASKED):
        folder, parked = tmp_path / f"{number} {second}", chance.random() < 0.5
        _run_pair(first, second, folder, parked=parked, chance=chance)


def _run_pair(
    first: str, second: str, folder: Path, *, parked: bool, chance: random.Random
) -> None:
    with make(folder) as session:
        control = session.controller
        assert session.run is not None
        reached = threading.Event()
        session.on_step(lambda record: reached.set() if record.step >= 3 else None)
        thread = threading.Thread(target=session.fit, kwargs={"steps": 10**9})
        thread.start()
        assert reached.wait(TIMEOUT_S)
        if parked:
            control.submit(Command(name="pause")).result(TIMEOUT_S)
        futures = []
        for name in (first, second):
            futures.append(control.submit(Command(name=name)))
            threading.Event().wait(chance.choice([0.0, 0.0, 0.001, 0.01]))
        control.submit(Command(name="stop"))
        thread.join(TIMEOUT_S)
        assert not thread.is_alive()
        for future in futures:
            error = future.exception(TIMEOUT_S)
            assert error is None or (isinstance(error, ControlError) and str(error))
        folder = session.dir
    _check_facts(folder)


def _check_facts(folder: Path) -> None:
    """Each command once, in one order; the loss of every step of the last timeline is there."""
    reader = FactsReader(folder)
    events = reader.events()
    commands = [event for event in events if event.get("kind") == "command"]
    numbers = sorted(event["command_seq"] for event in commands)
    assert numbers == list(range(1, len(commands) + 1))
    assert all(event["status"] in ("done", "refused", "failed") for event in commands)
    steps = reader.series(["loss"], timeline=max(event["timeline"] for event in events))
    found = steps["loss"].step.tolist()
    assert found == list(range(1, len(found) + 1))

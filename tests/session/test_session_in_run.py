"""A session in a run that somebody else opened, and the settings such a training asks for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from midstep import Run
from midstep.control import DebugController
from midstep.core.errors import ConfigError
from midstep.facts import FactsReader
from midstep.session import Session, SessionConfig


def session(run: Run | None = None, **settings: Any) -> Session:
    controller = settings.pop("controller", None)
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    data = TensorDataset(torch.ones(6, 2), torch.ones(6, 1))
    return Session(
        model,
        optimizer,
        nn.MSELoss(),
        DataLoader(data, batch_size=2),
        DataLoader(data, batch_size=6),
        controller=controller,
        config=SessionConfig(**settings),
        run=run,
    )


def test_it_trains_in_the_run_and_leaves_the_end_to_its_owner(tmp_path: Path) -> None:
    with Run(name="mine", save_dir=tmp_path, config={"recipe": "mine"}) as run:
        with session(run) as made:
            made.fit(steps=4)
            assert made.run is run
        assert not run.ended
        assert "back" not in run.controller.queue.registry
        run.finish(val_loss=0.5)
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == [run.dir.name]
    reader = FactsReader(run.dir)
    assert reader.header()["config"] == {"recipe": "mine"}
    assert list(reader.series(["loss"])["loss"].step) == [1, 2, 3, 4]
    assert reader.events()[-1]["val_loss"] == 0.5


def test_it_uses_the_controller_of_the_run(tmp_path: Path) -> None:
    with Run(name="mine", save_dir=tmp_path) as run:
        assert session(run).controller is run.controller
        assert session(run, controller=run.controller).controller is run.controller
        with pytest.raises(ConfigError, match="a run and another controller"):
            session(run, controller=DebugController())


def test_a_run_that_is_open_is_not_resumed(tmp_path: Path) -> None:
    with (
        Run(name="mine", save_dir=tmp_path) as run,
        pytest.raises(ConfigError, match="resume='auto' looks for"),
    ):
        session(run, resume="auto", run_name="mine")


@pytest.mark.parametrize(("epochs", "causes"), [(True, ["epoch", "end"]), (False, ["end"])])
def test_checkpoints_at_the_ends_of_epochs_can_be_left_out(
    tmp_path: Path, epochs: bool, causes: list[str]
) -> None:
    with session(save_dir=tmp_path, checkpoint_epochs=epochs) as made:
        made.fit(steps=4)
        events = FactsReader(made.dir).events()
    assert [each["cause"] for each in events if each.get("kind") == "checkpoint"] == causes


@pytest.mark.parametrize(
    ("total", "told"), [({"steps": 4}, (2, 4)), ({"steps": 6}, (2, 6)), ({"epochs": 3}, (3, 9))]
)
def test_epochs_are_told_of_steps_and_steps_of_epochs(
    tmp_path: Path, total: dict[str, int], told: tuple[int, int]
) -> None:
    with session(save_dir=tmp_path) as made:
        made.fit(**total)
        state = made.controller.get_state()
    assert (state["total_epochs"], state["total_steps"]) == told

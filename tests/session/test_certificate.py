"""The certificate says exact where it is, and names what is not."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from midstep.core.errors import ConfigError
from midstep.session import Session
from midstep.session.rewind.certificate import certify
from tests.data.order.loaders import Case
from tests.session.same import assert_same
from tests.session.sessions import Recipe
from tests.session.test_back import driven

RECIPE = Recipe(case=Case(policy="epoch_reseed"), validate=True)


class Unsteady(torch.nn.Module):
    """Adds noise of the operating system's: no generator can be put back for it."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.tensor(list(os.urandom(x.numel()))).view_as(x) / 256


@contextmanager
def opened(recipe: Recipe, folder: Path) -> Iterator[Session]:
    with recipe({"save_dir": folder}) as session:
        assert session.run is not None
        yield session


@pytest.mark.parametrize("policy", ["epoch_reseed", "user"])
def test_a_training_with_dropout_batch_norm_and_augmentation_is_exact(policy, tmp_path):
    with opened(replace(RECIPE, case=Case(policy=policy)), tmp_path) as session:
        before = session.trainer.state.take().state_tree()
        found = certify(session.trainer, 5)  # over the end of an epoch and its validation
        assert found.exact, found.words
        assert (found.steps, found.first_difference) == (5, None)
        assert "Exact" in found.words
        assert_same(session.trainer.state.take().state_tree(), before)


def test_the_layer_that_is_not_deterministic_is_named(tmp_path):
    with opened(RECIPE, tmp_path) as session:
        model: Any = session.trainer.parts.model
        model.layers.append(Unsteady())
        before = session.trainer.state.take().state_tree()
        found = certify(session.trainer, 3)
        assert not found.exact
        assert vars(found.first_difference) == {"step": 1, "what": "output", "name": "layers.3"}
        assert (found.tensor.step, found.tensor.what) == (1, "gradient")
        assert "'layers.3' differs first" in found.words
        assert_same(session.trainer.state.take().state_tree(), before)


def test_noise_in_a_gradient_alone_is_named(tmp_path):
    with opened(RECIPE, tmp_path) as session:
        weight = session.trainer.parts.model.head.weight
        weight.register_hook(lambda grad: grad + struct.unpack("<I", os.urandom(4))[0] / 2**33)
        found = certify(session.trainer, 1)
        assert vars(found.first_difference) == {
            "step": 1,
            "what": "gradient",
            "name": "head.weight",
        }


def test_an_order_that_is_not_deterministic_is_named(tmp_path):
    class Data(torch.utils.data.Dataset):
        def __len__(self) -> int:
            return 4

        def __getitem__(self, index: int) -> torch.Tensor:
            return torch.tensor([float(struct.unpack("<I", os.urandom(4))[0])])

    model = torch.nn.Linear(1, 1)
    session = Session(
        model,
        torch.optim.SGD(model.parameters(), lr=1e-9),
        None,
        torch.utils.data.DataLoader(Data()),
        config=RECIPE({"save_dir": tmp_path}).config,
    )
    session.training_step(lambda net, batch: net(batch / 2**32).sum())
    with session:
        assert session.run is not None
        found = session.certify(1)
    assert found.first_difference.what == "batch"


def test_the_command_reports_as_every_report_on_health_does(tmp_path):
    with driven(RECIPE, tmp_path) as run:
        run.ask("step", n=2)
        before = run.state()
        told = run.session.command("determinism_health", steps=2)
        assert told["header"]["run"] == run.session.run.run_id
        assert told["header"]["step"] == 2
        assert told["header"]["checkpoint"].startswith("checkpoints/")
        assert told["data"]["exact"]
        assert told["text"].startswith("Exact")
        assert run.session.certify(1).exact
        assert_same(run.state(), before)
        assert run.control.get_state()["state"] == "paused"


def test_how_many_steps_is_checked(tmp_path):
    with opened(RECIPE, tmp_path) as session:
        for steps in (0, -1, True, 2.0, 10**6):
            with pytest.raises(ConfigError, match="whole number from 1"):
                certify(session.trainer, steps)

"""`extra_state`: saved, resumed and taken back with the training; a missing name is refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from midstep.core.errors import ConfigError
from midstep.facts import FactsReader
from midstep.session import Session
from tests.checkers.resume import assert_session_resumes
from tests.data.order.loaders import Case
from tests.session.sessions import Recipe
from tests.session.test_back import driven


class Counter:
    """Counts steps in a variable of its own."""

    def __init__(self) -> None:
        self.count = 0

    def state_dict(self) -> dict[str, Any]:
        return {"count": self.count}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.count = state["count"]


@dataclass(frozen=True, kw_only=True)
class Averaging(Recipe):
    """Keeps a moving average of the weights, which no generator and no optimizer knows of."""

    names: tuple[str, ...] = ("ema", "counter")

    def __call__(self, settings: dict[str, Any]) -> Session:
        made = super().__call__(settings)
        parts = made.trainer.parts
        ema = AveragedModel(parts.model, multi_avg_fn=get_ema_multi_avg_fn(0.9), use_buffers=True)
        own = {"ema": ema, "counter": Counter()}
        session = Session(
            parts.model,
            parts.optimizer,
            None,
            parts.train_loader,
            parts.val_loader,
            scheduler=parts.scheduler,
            config=made.config,
            extra_state={name: own[name] for name in self.names},
        )
        session.training_step(parts.training_step)

        @session.after_step
        def average(model: torch.nn.Module) -> None:
            ema.update_parameters(model)
            own["counter"].count += 1

        return session


def given(folder: Path, **others: Any) -> dict[str, Any]:
    return {
        "save_dir": folder,
        "run_name": "run",
        "resume": "auto",
        "checkpoint_every_steps": 1,
        **others,
    }


@pytest.mark.parametrize("policy", ["epoch_reseed", "user"])
def test_an_average_of_the_weights_resumes_bit_for_bit(policy, tmp_path):
    recipe = Averaging(case=Case(policy=policy), validate=True)
    assert_session_resumes(recipe, tmp_path, kills=[2, 3, 5], steps=6)


def test_going_back_takes_it_along_and_a_repeated_step_moves_it(tmp_path):
    with driven(Averaging(case=Case(policy="epoch_reseed")), tmp_path) as run:
        run.ask("step", n=5)
        there = run.state()["also"]
        run.session.back(3)
        assert run.state()["also"]["counter"] == {"count": 2}
        run.ask("step", n=3)
        again = run.state()["also"]
        assert again["counter"] == {"count": 5}
        for name, value in there["ema"].items():
            assert torch.equal(value, again["ema"][name]), name


def test_a_skipped_step_does_not_average(tmp_path):
    with Averaging(poison=(0,))(given(tmp_path)) as session:  # in one of three steps
        session.fit(steps=3)
        assert session.trainer.state.take().states["also"]["counter"] == {"count": 2}


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (("ema",), (), r"lacks 'ema'.*give extra_state=\{'ema': …\}"),
        ((), ("ema",), "'ema', which the checkpoint lacks: leave it out"),
        (("ema",), ("counter",), "lacks 'ema'.*'counter', which the checkpoint lacks"),
    ],
    ids=["missing", "new", "renamed"],
)
def test_a_resume_with_other_state_is_refused_with_the_remedy_unless_meant(
    before, after, words, tmp_path
):
    settings = given(tmp_path, enforce_sampler_state=False)  # an average may be left out here
    with Averaging(names=before)(settings) as session:
        session.fit(steps=2)
    with (
        Averaging(names=after)(settings) as session,
        pytest.raises(ConfigError, match=rf"{words}.*allow_changed=\('extra_state',\)"),
    ):
        session.fit(steps=3)
    with Averaging(names=after)({**settings, "allow_changed": ("extra_state",)}) as session:
        session.fit(steps=3)
        assert session.trainer.step == 3
    told = [e for e in FactsReader(tmp_path / "run").events() if e.get("kind") == "change_allowed"]
    assert [fact["field"] for fact in told] == ["also"]


def test_what_cannot_be_kept_is_refused_when_it_is_given(tmp_path):
    made = Recipe()({"save_dir": tmp_path})
    parts = made.trainer.parts
    for also, words in (({"ema": 3}, "without state_dict"), ({"": Counter()}, "needs a name")):
        with pytest.raises(ConfigError, match=words):
            Session(parts.model, parts.optimizer, None, parts.train_loader, extra_state=also)
    assert not list(tmp_path.iterdir())

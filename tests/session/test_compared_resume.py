"""A resume is compared with the record: rows have what is needed, and right trainings no alarm."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from midstep.facts import FactsReader
from midstep.facts.read.wide_table import WideTable
from midstep.session import Session, SessionConfig
from midstep.session.state.weights_checksum import WeightsSample
from tests.checkers.resume import Killed
from tests.data.order.loaders import Case
from tests.session.sessions import Recipe
from tests.session.test_back import driven

RECIPE = Recipe(case=Case(policy="epoch_reseed"))


def values(folder: Any, name: str) -> dict[int, float]:
    series = FactsReader(folder).series([name])[name]
    return dict(zip(series.step.tolist(), series.low.tolist(), strict=True))


def results(folder: Any) -> list[dict[str, Any]]:
    events = FactsReader(folder).events()
    return [event for event in events if event.get("kind") == "repeated_steps"]


def killed_at(make: Any, step: int, folder: Any, **settings: Any) -> None:
    """Train until a step; the checkpoint of an earlier one is on disk."""
    given = {"save_dir": folder, "run_name": "run", "resume": "auto", "checkpoint_epochs": False}
    with make({**given, "checkpoint_every_steps": 3, **settings}) as session:

        @session.on_step
        def end(record: Any) -> None:
            if record.step == step:
                raise Killed

        with pytest.raises(Killed):
            session.fit(steps=12)


def resumed(make: Any, folder: Any, **settings: Any) -> dict[str, Any]:
    """Train on to the end; the result of the comparison."""
    given = {"save_dir": folder, "run_name": "run", "resume": "must"}
    with make({**given, **settings}) as session:
        session.fit(steps=12)
        shown = session.controller.get_state()["repeated"]
    (result,) = results(folder / "run")
    assert shown["text"] == result["text"]
    return result


def test_every_row_has_the_rate_that_the_step_used_and_a_checksum_of_its_ids(tmp_path):
    used: dict[int, float] = {}
    recipe = replace(RECIPE, scheduler="one cycle")
    with recipe({"save_dir": tmp_path, "run_name": "run"}) as session:
        optimizer = session.trainer.parts.optimizer
        optimizer.register_step_pre_hook(
            lambda o, *_: used.update({session.trainer.step + 1: o.param_groups[0]["lr"]})
        )
        session.fit(steps=40)
    assert values(tmp_path / "run", "lr") == used
    assert values(tmp_path / "run", "ids_checksum").keys() == used.keys()
    assert {16, 32} <= values(tmp_path / "run", "weights_checksum").keys()


def test_a_checksum_that_a_device_sends_after_the_last_step_is_recorded(tmp_path, monkeypatch):
    class SlowChecksum:
        value = 7

        def is_ready(self) -> bool:
            return False

    monkeypatch.setattr(WeightsSample, "checksum", lambda sample: SlowChecksum())
    with RECIPE({"save_dir": tmp_path, "run_name": "run"}) as session:
        session.fit(steps=17)
    assert values(tmp_path / "run", "weights_checksum")[16] == 7


def test_checksums_are_in_no_list_and_in_no_export(tmp_path):
    with RECIPE({"save_dir": tmp_path, "run_name": "run"}) as session:
        records: list[Any] = []
        session.on_step(records.append)
        session.fit(steps=3)
    reader = FactsReader(tmp_path / "run")
    shown = [*reader.names, *reader.series(), *WideTable(tmp_path / "run").columns]
    shown += [name for record in records for name in record.metrics]
    assert "loss" in shown
    assert not [name for name in shown if "checksum" in name]


def test_a_killed_session_says_that_its_repeated_steps_are_exact(tmp_path, capfd):
    killed_at(RECIPE, 6, tmp_path)
    result = resumed(RECIPE, tmp_path)
    assert (result["verdict"], result["exact"], result["cause"]) == ("exact", True, "resume")
    assert f"midstep: {result['text']}\n" in capfd.readouterr().err


def test_a_resume_without_a_record_makes_its_first_step_twice(tmp_path):
    calls: list[int] = []
    with RECIPE({"save_dir": tmp_path, "run_name": "run"}) as session:
        session.fit(steps=3)

    def counting(settings: dict[str, Any]) -> Session:
        session = RECIPE(settings)
        session.on_step(lambda record: calls.append(record.step))
        return session

    result = resumed(counting, tmp_path)
    assert (result["exact"], result["verdict"], result["steps"]) == (None, "repeatable", 1)
    assert calls == list(range(4, 13))


def test_resume_check_can_be_switched_off(tmp_path):
    with RECIPE({"save_dir": tmp_path, "run_name": "run"}) as session:
        session.fit(steps=3)
    result = resumed(RECIPE, tmp_path, resume_check=False)
    assert (result["exact"], result["verdict"]) == (None, None)
    assert "resume_check is off" in result["text"]


def test_a_change_of_hyperparameters_in_the_record_ends_the_comparison(tmp_path):
    given = {"save_dir": tmp_path, "run_name": "run", "checkpoint_every_steps": 3}
    with RECIPE({**given, "checkpoint_epochs": False}) as session:

        @session.on_step
        def change(record: Any) -> None:
            if record.step == 5:
                # As a command at this step would, but without the checkpoint that it takes.
                session.engine._record_request(
                    kind="hparams", old={"lr": [0.05]}, new={"lr": [0.5]}, step=5
                )
                session.trainer.parts.optimizer.param_groups[0]["lr"] = 0.5
            if record.step == 7:
                raise Killed

        with pytest.raises(Killed):
            session.fit(steps=12)
    folder = tmp_path / "run"
    for path in (folder / "checkpoints").glob("6*"):
        path.rename(folder / path.name)  # the kill came before this checkpoint
    result = resumed(RECIPE, tmp_path)
    assert (result["verdict"], result["steps"]) == ("exact", 2)


def test_a_rate_that_was_edited_before_the_restart_is_no_alarm(tmp_path):
    recipe = replace(RECIPE, scheduler="none")
    killed_at(recipe, 5, tmp_path)

    def edited(settings: dict[str, Any]) -> Session:
        session = recipe({**settings, "allow_changed": ("optimizer",)})
        parts = session.trainer.parts
        parts.optimizer.defaults["lr"] = parts.optimizer.param_groups[0]["lr"] = 0.5
        return session

    result = resumed(edited, tmp_path)
    assert result["exact"] is None
    assert result["text"] == "not compared: optimizer changed"


def test_changed_settings_are_not_compared(tmp_path):
    killed_at(RECIPE, 5, tmp_path)
    result = resumed(RECIPE, tmp_path, grad_clip_norm=0.1)
    assert result["exact"] is None
    assert "grad_clip_norm was None, is 0.1" in result["text"]


def test_a_loss_that_is_not_a_number_is_compared_as_it_is(tmp_path):
    recipe = replace(RECIPE, poison=tuple(range(30)))
    killed_at(recipe, 3, tmp_path, checkpoint_every_steps=1)
    assert math.isnan(values(tmp_path / "run", "loss")[2])
    assert resumed(recipe, tmp_path)["exact"] is not False


def test_another_number_of_threads_is_no_alarm(tmp_path):
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(before + 1)
        killed_at(RECIPE, 5, tmp_path)
        torch.set_num_threads(before)
        assert resumed(RECIPE, tmp_path)["exact"] is not False
    finally:
        torch.set_num_threads(before)


class SkippingScaler(torch.amp.GradScaler):
    """Finds an overflow in every third step, on the CPU too."""

    def __init__(self) -> None:
        super().__init__("cpu", init_scale=4.0)
        self.calls = 0

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        self.calls += 1
        if self.calls % 3 == 0:
            for group in optimizer.param_groups:
                for p in group["params"]:
                    p.grad.fill_(math.inf)
            self._per_optimizer_states[id(optimizer)]["found_inf_per_device"] = {
                torch.device("cpu"): torch.ones(())
            }
        return super().step(optimizer, *args, **kwargs)

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "calls": self.calls}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.calls = state["calls"]
        super().load_state_dict({name: v for name, v in state.items() if name != "calls"})


def test_steps_that_a_scaler_skips_are_no_alarm(tmp_path):
    def make(settings: dict[str, Any]) -> Session:
        torch.manual_seed(0)
        model = nn.Linear(3, 1)
        data = TensorDataset(torch.randn(40, 3), torch.randn(40, 1))
        return Session(
            model,
            torch.optim.SGD(model.parameters(), lr=0.1),
            nn.MSELoss(),
            DataLoader(data, batch_size=4, shuffle=True),
            scaler=SkippingScaler(),
            config=SessionConfig(**settings),
        )

    killed_at(make, 8, tmp_path)
    assert values(tmp_path / "run", "skipped").keys() >= {3, 6}
    assert resumed(make, tmp_path)["verdict"] == "exact"


def test_steps_after_going_back_are_compared_when_they_are_made_again(tmp_path):
    with driven(RECIPE, tmp_path) as run:
        run.ask("step", n=6)
        run.session.back(4)
        run.ask("step", n=4)
        folder = run.session.dir
        assert run.control.get_state()["repeated"]["exact"] is True
    last = results(folder)[-1]
    assert (last["cause"], last["verdict"], last["steps"]) == ("back", "exact", 4)


def test_a_change_after_going_back_ends_the_comparison(tmp_path):
    with driven(RECIPE, tmp_path) as run:
        run.ask("step", n=6)
        run.session.back(4)
        run.ask("step", n=1)
        run.session.command("set_hparams", lr=0.5)
        run.ask("step", n=3)
        folder = run.session.dir
    assert {each["exact"] for each in results(folder)} == {True}
    assert results(folder)[-1]["steps"] == 1


def test_untracked_tensors_are_named_when_the_run_begins(tmp_path, capfd):
    model, scale = nn.Linear(3, 1), torch.ones(1, requires_grad=True)
    data = TensorDataset(torch.randn(8, 3), torch.randn(8, 1))
    optimizer = torch.optim.SGD([*model.parameters(), scale], lr=0.1)
    config = SessionConfig(save_dir=tmp_path, run_name="run")
    loader = DataLoader(data, batch_size=4)
    with Session(model, optimizer, nn.MSELoss(), loader, config=config) as session:
        session.fit(steps=1)
    words = "1 tensor of optimizer 1 is not in `model`; its values are saved"
    assert words in capfd.readouterr().err
    kinds = [event.get("kind") for event in FactsReader(tmp_path / "run").events()]
    assert kinds.count("untracked_tensors") == 1


def test_a_generator_of_collate_in_workers_is_refused_or_reported(tmp_path):
    from midstep.core.errors import ConfigError
    from tests.checkers.matrix import Case as Generated
    from tests.checkers.matrix import Parts

    def session(**settings: Any) -> Session:
        parts = Parts(Generated(generator="python in collate", workers=1, sampler="sequential"))
        config = SessionConfig(save_dir=tmp_path, **settings)
        return Session(parts.model, parts.optimizer, parts.loss_fn, parts.loader, config=config)

    with session() as refused, pytest.raises(ConfigError, match="generator in the loader's worker"):
        refused.fit(steps=1)
    with session(enforce_sampler_state=False) as reported:
        reported.fit(steps=1)
        folder = reported.dir
    reasons = [e["reason"] for e in FactsReader(folder).events() if e.get("kind") == "inexact"]
    assert any("collate_fn" in reason for reason in reasons)

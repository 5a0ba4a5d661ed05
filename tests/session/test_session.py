"""A session: its loop, its steps, what it tells, and the commands it obeys."""

from __future__ import annotations

import math
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import midstep
from midstep.control import Command, DebugController
from midstep.core.errors import ConfigError, ControlError
from midstep.facts import FactsReader, end_state
from midstep.session import Session, SessionConfig
from midstep.session.checkpoint.checkpoint_store import CheckpointStore
from tests.checkers.neutral import wait_until


def data(count: int = 10) -> TensorDataset:
    made = torch.Generator().manual_seed(2)
    return TensorDataset(
        torch.randn(count, 3, generator=made), torch.randint(2, (count,), generator=made)
    )


def small(tmp_path: Path, loader: Any = None, **given: Any) -> Session:
    """A session over ten samples in batches of four; settings of the config go by their names."""
    torch.manual_seed(1)
    model = given.pop("model", None) or nn.Linear(3, 2)
    optimizer = given.pop("optimizer", None) or torch.optim.SGD(model.parameters(), lr=0.1)
    parts = {
        name: given.pop(name)
        for name in ("val_loader", "test_loader", "scheduler", "scaler", "controller")
        if name in given
    }
    loss_fn = given.pop("loss_fn", nn.CrossEntropyLoss())
    return Session(
        model,
        optimizer,
        loss_fn,
        DataLoader(data(), batch_size=4) if loader is None else loader,
        **parts,
        config=SessionConfig(save_dir=tmp_path, run_name="run", **given),
    )


def events(tmp_path: Path, moment: str) -> list[dict]:
    return [e for e in FactsReader(tmp_path / "run").events() if e["moment"] == moment]


# -- fit ------------------------------------------------------------------------------------------


def test_epochs_and_steps_are_totals_of_which_one_is_given(tmp_path):
    with small(tmp_path) as session:
        for wrong in ({}, {"epochs": 1, "steps": 1}, {"steps": -1}):
            with pytest.raises(ConfigError):
                session.fit(**wrong)
        session.fit(epochs=2)
        assert (session.trainer.step, session.trainer.epoch) == (6, 2)
        with pytest.raises(ControlError, match="this session is finished"):
            session.fit(epochs=3)
    assert end_state(tmp_path / "run").state == "finished"


def test_on_step_gets_ids_in_batch_order(tmp_path):
    records = []
    with small(tmp_path, DataLoader(data(), batch_size=4, shuffle=True)) as session:
        session.on_step(records.append)
        session.fit(steps=3)
    assert [record.step for record in records] == [1, 2, 3]
    assert sorted(i for record in records for i in record.sample_ids) == list(range(10))
    assert len(records[2].sample_ids) == 2
    assert records[0].metrics["lr"] == 0.1


def test_a_step_of_the_users_own_gives_loss_and_scalars(tmp_path):
    with small(tmp_path, loss_fn=None) as session:

        @session.training_step
        def step(model, batch):
            loss = model(batch[0]).square().mean()
            return {"loss": loss, "double": 2 * loss.detach()}

        session.fit(steps=2)
    series = FactsReader(tmp_path / "run").series(["loss", "double"])
    assert series["double"].low == pytest.approx(2 * series["loss"].low)


BATCHES = {
    "a pair": (data(8), nn.Linear(3, 2), nn.CrossEntropyLoss()),
    "a tensor is its own target": (torch.ones(8, 3), nn.Linear(3, 3), nn.MSELoss()),
    "one tensor in a list": (TensorDataset(torch.ones(8, 3)), nn.Linear(3, 3), nn.MSELoss()),
    "a mapping": (
        [{"x": torch.ones(3), "label": 1, "id": 7}] * 8,
        nn.Linear(3, 2),
        nn.CrossEntropyLoss(),
    ),
}


@pytest.mark.parametrize("what", BATCHES)
def test_the_default_step_understands(what, tmp_path):
    samples, model, loss_fn = BATCHES[what]
    loader = DataLoader(samples, batch_size=4)
    with small(tmp_path, loader, model=model, loss_fn=loss_fn) as session:
        session.fit(steps=2)
        assert session.trainer.step == 2


@pytest.mark.parametrize(
    ("sample", "words"),
    [
        ((torch.ones(3), 1, 2), "3 parts"),
        ({"a": torch.ones(3), "b": 1}, "the keys a, b"),
        ("text", "2 parts|type list"),
    ],
    ids=["three parts", "unknown keys", "text"],
)
def test_a_batch_that_cannot_be_guessed_names_the_decorator(sample, words, tmp_path):
    loader = DataLoader([sample] * 8, batch_size=3)
    with (
        small(tmp_path, loader) as session,
        pytest.raises(ConfigError, match=r"@session\.training_step") as caught,
    ):
        session.fit(steps=1)
    assert "parts" in str(caught.value) or "keys a, b" in str(caught.value), words


def test_a_loss_that_is_no_single_number_is_refused(tmp_path):
    with (
        small(tmp_path, loss_fn=nn.CrossEntropyLoss(reduction="none")) as session,
        pytest.raises(ConfigError, match=r"loss_fn returned shape \(4,\)"),
    ):
        session.fit(steps=1)


def test_an_empty_loader_is_refused(tmp_path):
    with (
        small(tmp_path, DataLoader(data(2), batch_size=4, drop_last=True)) as session,
        pytest.raises(ConfigError, match="gave no batch"),
    ):
        session.fit(steps=1)


# -- steps ----------------------------------------------------------------------------------------


def test_the_norm_told_is_the_one_before_clipping(tmp_path):
    records = []
    with small(tmp_path, grad_clip_norm=1e-3) as session:
        session.on_step(records.append)
        session.fit(steps=1)
        norm = nn.utils.get_total_norm([p.grad for p in session.trainer.parts.model.parameters()])
    assert float(records[0].metrics["grad_norm"]) > 0.1
    assert norm == pytest.approx(1e-3, rel=1e-3)


def test_a_loss_that_is_not_finite_skips_the_step_and_says_so(tmp_path):
    records, weights = [], []
    with small(tmp_path) as session:

        @session.training_step
        def step(model, batch):
            loss = model(batch[0]).square().mean()
            return loss * math.inf if session.trainer.step == 1 else loss

        @session.on_step
        def note(record):
            records.append(record)
            weights.append(session.trainer.parts.model.weight.detach().clone())

        session.fit(epochs=1)
    assert ["skipped" in record.metrics for record in records] == [False, True, False]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[1], weights[2])
    assert FactsReader(tmp_path / "run").series(["skipped"])["skipped"].step.tolist() == [2]
    (end,) = events(tmp_path, "on_epoch_end")
    assert end["skipped"] == 1
    assert math.isfinite(end["train_loss"])


def test_schedulers_step_by_the_one_rule(tmp_path):
    def rates(name, make, **settings):
        model = nn.Linear(3, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        found = []
        with small(
            tmp_path / name,
            model=model,
            optimizer=optimizer,
            scheduler=make(optimizer),
            val_loader=DataLoader(data(), batch_size=5),
            **settings,
        ) as session:
            session.on_step(lambda _record: found.append(optimizer.param_groups[0]["lr"]))
            session.fit(epochs=2)
        return found

    schedulers = torch.optim.lr_scheduler
    by_epoch = rates("epoch", lambda o: schedulers.ExponentialLR(o, 0.5))
    assert by_epoch == [1.0] * 3 + [0.5] * 3
    by_step = rates("step", lambda o: schedulers.ExponentialLR(o, 0.5), scheduler_interval="step")
    assert by_step == [0.5**n for n in range(1, 7)]
    cycle = rates("cycle", lambda o: schedulers.OneCycleLR(o, 1.0, total_steps=8))
    assert len(set(cycle)) == 6
    plateau = rates("plateau", lambda o: schedulers.ReduceLROnPlateau(o, patience=0, threshold=1e9))
    assert plateau[3:] == [1.0] * 3 or plateau[3] == pytest.approx(0.1)


def test_a_plateau_scheduler_needs_a_validation(tmp_path):
    model = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
    with pytest.raises(ConfigError, match="val_loader"):
        small(tmp_path, model=model, optimizer=optimizer, scheduler=scheduler)


def test_an_optimizer_that_runs_the_model_several_times_is_refused(tmp_path):
    model = nn.Linear(3, 2)
    with pytest.raises(ConfigError, match="LBFGS"):
        small(tmp_path, model=model, optimizer=torch.optim.LBFGS(model.parameters()))


def test_autocast_and_a_scaler_are_used_when_asked_for(tmp_path):
    kinds = []
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    with small(tmp_path, amp="bf16", scaler=scaler) as session:
        layer = session.trainer.parts.model
        layer.register_forward_hook(lambda _m, _i, output: kinds.append(output.dtype))
        session.fit(steps=2)
        assert session.trainer.state.take().states["scaler"]["_growth_tracker"] == 2
    assert set(kinds) == {torch.bfloat16}


# -- validation, test, facts ----------------------------------------------------------------------


def test_validation_and_test_are_told_with_accuracy(tmp_path):
    other = DataLoader(data(6), batch_size=4, shuffle=True)
    with small(
        tmp_path, val_loader=other, test_loader=other, do_test_after=True, val_every_n_epochs=2
    ) as session:
        session.fit(epochs=4)
        model = session.trainer.parts.model
        x, y = data(6).tensors
        accuracy = float((model(x).argmax(1) == y).float().mean())
        loss = nn.functional.cross_entropy(model(x), y).item()
    validations = events(tmp_path, "on_validation_end")
    assert [end["epoch"] for end in validations] == [1, 3]
    assert validations[-1]["metrics"]["accuracy"] == pytest.approx(accuracy)
    assert validations[-1]["val_loss"] == pytest.approx(loss)
    (test,) = events(tmp_path, "on_test_end")
    assert test["test_loss"] == pytest.approx(loss)
    assert [end["epoch"] for end in events(tmp_path, "on_epoch_end")] == [0, 1, 2, 3]


def test_a_validation_leaves_modes_and_generators_alone(tmp_path):
    model = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.Linear(4, 2))
    model[0].eval()
    seen = []
    with small(
        tmp_path, model=model, val_loader=DataLoader(data(), batch_size=3, shuffle=True)
    ) as session:

        @session.validation_step
        def judge(net, batch):
            seen.append(net.training)
            torch.rand(3)
            return nn.functional.cross_entropy(net(batch[0]), batch[1])

        session.fit(steps=3)
    assert seen
    assert not any(seen)
    assert [module.training for module in model] == [False, True, True]


# -- errors ---------------------------------------------------------------------------------------


def test_an_error_of_the_user_passes_through_and_names_the_last_checkpoint(tmp_path):
    session = small(tmp_path, checkpoint_every_steps=1)

    @session.on_step
    def fail(record):
        session.checkpoint_writer.wait()
        if record.step == 3:
            raise ZeroDivisionError

    with session, pytest.raises(ZeroDivisionError) as caught:
        session.fit(steps=9)
    assert caught.value.__notes__ == [
        f"midstep: the last checkpoint is {tmp_path / 'run' / 'checkpoints' / '2'}"
    ]
    assert end_state(tmp_path / "run").state == "failed"


def test_a_step_that_raised_can_be_looked_at_but_not_saved(tmp_path):
    session = small(tmp_path)

    @session.training_step
    def step(model, batch):
        if session.trainer.step == 2:
            raise ZeroDivisionError
        return model(batch[0]).square().mean()

    looked_at = []
    fail = session.controller.boundary.fail

    def look(reason, *, park):
        looked_at.append(session.controller._state.captures.held_batch.batch[0])
        fail(reason, park=park)

    session.controller.boundary.fail = look
    with session:
        with pytest.raises(ZeroDivisionError):
            session.fit(steps=9)
        with pytest.raises(ControlError, match="step 3 was begun"):
            session.trainer.state.take()
    assert torch.equal(looked_at[0], data().tensors[0][8:])


def test_a_breakpoint_on_the_norm_sees_every_step(tmp_path):
    controller = DebugController()
    controller.add_breakpoint("grad_norm", limit=1e-6)
    seen = []

    def drive():
        for _ in range(4):
            seen.append(wait_until(controller, lambda s: s["parked"] or s["state"] == "finished"))
            if not seen[-1]["parked"]:
                return
            controller.submit(Command(name="resume")).result(30)

    with small(tmp_path, controller=controller, deterministic_pauses=False) as session:
        driver = threading.Thread(target=drive)
        driver.start()
        session.fit(steps=3)
        driver.join()
    assert [state["step"] for state in seen][:3] == [1, 2, 3]


def test_the_loader_is_given_back(tmp_path):
    loader = DataLoader(data(), batch_size=4, shuffle=True)
    kind, sampler = type(loader), loader.batch_sampler
    with small(tmp_path, loader, data_order_policy="epoch_reseed", seed=1) as session:
        session.fit(steps=2)
    assert type(loader) is kind
    assert loader.batch_sampler is sampler
    assert len(list(loader)) == 3


# -- commands -------------------------------------------------------------------------------------


def parked_at(session: Session, step: int, drive: Any, *, steps: int = 9) -> None:
    """Fit with a driver that acts once the run stands at `step`; it lets it go on at the end."""
    failures: list[BaseException] = []

    def work() -> None:
        try:
            reached.result(30)
            drive()
            session.controller.resume()
        except BaseException as error:  # noqa: BLE001 - raised again in the test's own thread
            failures.append(error)
            session.controller.stop()

    assert session.run.attempt == 1
    reached = session.controller.submit(Command(name="run_until", payload={"step": step}))
    driver = threading.Thread(target=work)
    driver.start()
    session.fit(steps=steps)
    driver.join()
    if failures:
        raise failures[0]


def test_set_hparams_returns_the_old_values_and_is_a_fact(tmp_path):
    answers = []
    with small(tmp_path) as session:
        optimizer = session.trainer.parts.optimizer

        def drive():
            answers.append(session.command("set_hparams", lr=0.5))
            answers.append(session.command("set_hparams", lr_mul=0.5, momentum=0.9))
            session.checkpoint_writer.wait()

        parked_at(session, 2, drive)
        assert optimizer.param_groups[0]["lr"] == 0.25
    assert answers == [{"old": {"lr": [0.1]}}, {"old": {"lr": [0.5], "momentum": [0]}}]
    told = [e for e in events(tmp_path, "on_intervention") if e.get("kind") == "hparams"]
    assert [(e["step"], e["new"]) for e in told] == [
        (2, {"lr": [0.5]}),
        (2, {"lr": [0.25], "momentum": [0.9]}),
    ]
    kept = CheckpointStore(tmp_path / "run").load(2)
    assert kept.states["optimizer"]["param_groups"][0]["lr"] == 0.25


@pytest.mark.parametrize(
    ("payload", "field"),
    [
        ({"lr": math.nan}, "lr"),
        ({"lr": -1}, "lr"),
        ({"lr": "0.1"}, "lr"),
        ({"weight_decay": True}, "weight_decay"),
        ({"betas": [0.9]}, "betas"),
        ({"lr": 0.1, "lr_mul": 2}, "lr_mul"),
        ({"betas": [0.9, 0.99]}, "SGD has no betas"),
        ({}, "needs one of"),
        ({"speed": 3}, "speed"),
    ],
    ids=str,
)
def test_a_wrong_hyperparameter_is_refused_by_its_name(payload, field, tmp_path):
    with small(tmp_path) as session, pytest.raises(ControlError, match=field):
        session.command("set_hparams", **payload)


def test_a_changed_rate_survives_the_scheduler(tmp_path):
    model = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 0.5**epoch)
    with small(tmp_path, model=model, optimizer=optimizer, scheduler=scheduler) as session:
        session.command("set_hparams", lr=0.2)
        session.fit(epochs=2)
        assert optimizer.param_groups[0]["lr"] == pytest.approx(0.2 * 0.25)


def test_load_and_reset_go_there_in_a_new_timeline_and_the_loop_goes_on(tmp_path):
    answers, losses = [], []
    with small(tmp_path, DataLoader(data(), batch_size=4, shuffle=True)) as session:
        session.on_step(lambda record: losses.append((record.step, record.loss)))

        def drive():
            answers.append(session.command("save_checkpoint"))
            session.command("step", n=2)
            answers.append(session.command("loadCheckpoint", step=2))
            session.command("step", n=2)
            answers.append(session.command("resetSession"))

        parked_at(session, 2, drive, steps=5)
        assert session.trainer.state.timeline == 2
    assert answers[0]["checkpoint"].startswith("checkpoints/2")
    assert [(a["step"], a["timeline"]) for a in answers[1:]] == [(2, 1), (0, 2)]
    assert [step for step, _ in losses] == [1, 2, 3, 4, 3, 4, 1, 2, 3, 4, 5]
    by_step = {step: {loss for s, loss in losses if s == step} for step in range(1, 5)}
    assert all(len(found) == 1 for found in by_step.values()), by_step
    rewinds = [e for e in events(tmp_path, "on_intervention") if e.get("kind") == "rewind"]
    assert [(e["from_step"], e["step"]) for e in rewinds] == [(4, 2), (4, 0)]


@pytest.mark.parametrize("command", ["load_checkpoint", "loadCheckpoint", "reset_session"])
def test_load_and_reset_are_refused_while_the_run_runs_or_has_steps_to_make(command, tmp_path):
    refused = []
    with small(tmp_path) as session:

        @session.on_step
        def ask(record):
            if record.step in (1, 3):
                refused.append(session.controller.submit(Command(name=command)))

        def drive():
            session.controller.submit(Command(name="step", payload={"n": 3})).result(30)

        parked_at(session, 2, drive, steps=6)
    running, stepping = (future.exception(30) for future in refused)
    assert "is running; pause it first" in str(running)
    assert "still makes the steps" in str(stepping)
    assert session.trainer.state.timeline == 0


def test_before_the_first_fit_a_checkpoint_is_loaded_at_once(tmp_path):
    config = {"resume": "auto", "checkpoint_every_steps": 1}
    with small(tmp_path, **config) as session:
        session.on_boundary.append(session.checkpoint_writer.wait)
        session.fit(steps=3)
    seen = []
    with small(tmp_path, **config) as session:
        assert session.command("load_checkpoint", step=1)["step"] == 1
        session.on_step(lambda record: seen.append(record.step))
        session.fit(steps=3)
    assert seen == [2, 3]
    told = [e for e in events(tmp_path, "on_intervention") if e.get("kind") == "rewind"]
    assert [(e["from_step"], e["step"], e["who"]) for e in told] == [(3, 1, "python")]


def test_test_now_needs_a_loader_and_answers_with_means(tmp_path):
    with small(tmp_path) as session, pytest.raises(ControlError, match="no test_loader"):
        session.command("test_now")
    with small(tmp_path / "b", test_loader=DataLoader(data(), batch_size=5)) as session:
        assert session.command("testRun").keys() == {"loss", "accuracy"}


def test_a_command_from_inside_a_step_is_refused(tmp_path):
    with small(tmp_path) as session:
        session.on_step(lambda _record: session.command("save_checkpoint"))
        with pytest.raises(ControlError, match="would wait for itself"):
            session.fit(steps=1)


def test_a_controller_can_serve_one_session_after_the_other(tmp_path):
    first = DebugController()
    with small(tmp_path, controller=first) as session:
        session.fit(steps=1)
    assert "save_checkpoint" not in first.queue.registry


def test_serve_shows_a_session_and_fit_trains_it(tmp_path):
    with small(tmp_path) as session, midstep.serve(session, port=0) as page:
        assert page.run is session.run
        session.fit(steps=3)
        state = wait_until(page.controller, lambda state: state["state"] == "finished")
    assert state["step"] == 3


# -- settings -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong",
    [
        {"resume": "sometimes"},
        {"data_order_policy": "random"},
        {"data_order_policy": "epoch_reseed"},
        {"accumulate_steps": 0},
        {"accumulate_steps": 1.5},
        {"checkpoint_keep": 0},
        {"checkpoint_every_steps": 0},
        {"val_every_n_epochs": 0},
        {"grad_clip_norm": 0.0},
        {"grad_clip_norm": math.nan},
        {"amp": "fp8"},
        {"scheduler_interval": "batch"},
        {"rewind_steps": -1},
        {"rewind_bytes": -1},
        {"allow_changed": ("colour",)},
        {"resume": "auto"},
    ],
    ids=str,
)
def test_a_wrong_setting_is_refused(wrong):
    with pytest.raises(ConfigError):
        SessionConfig(**wrong)


def test_the_defaults_are_those_of_the_contract():
    config = SessionConfig()
    assert (config.data_order_policy, config.enforce_sampler_state) == ("user", True)
    assert (config.deterministic_pauses, config.resume) == (True, "never")
    assert (config.checkpoint_every_steps, config.checkpoint_keep) == (None, 10)
    assert (config.val_every_n_epochs, config.do_test_after) == (1, False)
    assert (config.rewind_steps, config.rewind_bytes) == (64, None)
    assert (config.seed, config.device, config.amp, config.grad_clip_norm) == (
        None,
        None,
        False,
        None,
    )

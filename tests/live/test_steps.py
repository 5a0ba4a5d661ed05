"""Loops over `run.steps` and `run.step_end`: boundaries, state, and what is refused."""

from __future__ import annotations

import itertools
import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from midstep.cli.main import main
from midstep.control import DebugController
from midstep.core.errors import ConfigError, ControlError
from midstep.facts import FactsReader
from midstep.live import attach
from tests.checkers.loops import Training, assert_loop_goes_back
from tests.checkers.neutral import wait_until
from tests.control.loop import IN_VIEW
from tests.live.test_attach import parked_at, series
from tests.live.test_back import ask
from tests.live.trainer import in_thread


class Small:
    """A model, its optimizer, and a step on random numbers."""

    def __init__(self, count: int = 1) -> None:
        torch.manual_seed(0)
        self.model = nn.Sequential(*(nn.Linear(2, 2) for _ in range(count)))
        each = [torch.optim.SGD(part.parameters(), lr=0.1) for part in self.model]
        self.optimizers = each if count > 1 else each[0]
        self.seen: list[torch.Tensor] = []

    def attach(self, save_dir: Path, **settings: Any) -> Any:
        return attach(self.model, self.optimizers, save_dir=save_dir, **settings)

    def step(self, x: torch.Tensor | None = None) -> torch.Tensor:
        self.seen.append(torch.rand(3, 2) if x is None else x)
        loss = self.model(self.seen[-1]).square().mean()
        loss.backward()
        for optimizer in (
            self.optimizers if isinstance(self.optimizers, list) else [self.optimizers]
        ):
            optimizer.step()
            optimizer.zero_grad()
        return loss.detach()


# -- what a batch, a name and an index are --------------------------------------------------------


@pytest.mark.parametrize("mode", ["live", "off"])
def test_batches_are_handed_back_as_they_are_and_variables_are_kept(mode, tmp_path, monkeypatch):
    monkeypatch.setenv("MIDSTEP_MODE", mode)
    small, x, y = Small(), torch.ones(1, 2), object()
    with small.attach(tmp_path) as run:
        k = run.keep(best=1.0)
        indices = []
        for index in run.steps(3):
            assert run.batch(x) is x
            pair = run.batch(x, y)
            assert pair[0] is x
            assert pair[1] is y
            with run.phase("eval"):
                run.log(loss=small.step(x))
            run.step_end()
            k.best -= 0.25
            indices.append(index)
    assert (indices, k.best) == ([0, 1, 2], 0.25)
    assert run.step == (0 if mode == "off" else 3)
    assert bool(list(tmp_path.iterdir())) == (mode == "live")


def test_indices_without_end(tmp_path, monkeypatch):
    for mode in ("live", "off"):
        monkeypatch.setenv("MIDSTEP_MODE", mode)
        with Small().attach(tmp_path) as run:
            assert list(itertools.islice(run.steps(None), 3)) == [0, 1, 2]


def test_what_steps_and_keep_cannot_take_is_refused(tmp_path):
    with Small().attach(tmp_path) as run:
        with pytest.raises(ConfigError, match="needs a number of steps or None, got -1"):
            run.steps(-1)
        with pytest.raises(ConfigError, match=r"keep\.obs is a builtins\.object"):
            run.keep(obs=object())
        for _ in run.steps(1):
            with pytest.raises(ConfigError, match="inside a loop over"):
                run.steps(1)


# -- steps and indices ----------------------------------------------------------------------------


def test_an_iteration_counts_one_step_for_many_or_none_of_its_optimizers(tmp_path):
    small = Small()
    with small.attach(tmp_path) as run:
        for index in run.steps(6):
            for _ in range(index):
                run.log(loss=small.step())
            if index == 0:
                run.log(episode=7.0)
    assert run.step == 5
    assert series(run.dir, "optimizer_steps") == ([2, 3, 4, 5], [2.0, 3.0, 4.0, 5.0])
    assert series(run.dir, "episode") == ([0], [7.0])


def test_a_pause_holds_at_an_index_without_a_step_and_a_resume_continues_there(tmp_path):
    def train(small: Small, indices: list[int], run: Any) -> None:
        for index in run.steps(60):
            indices.append(index)
            if index >= 50:
                run.log(loss=small.step())

    first, indices = Small(), []
    attached = first.attach(tmp_path, run_name="run", resume="auto", start_paused=True)
    control = attached.controller
    stop_at = control.add_breakpoint("metric", name="go", op=">", value=0.5)

    def body(run: Any) -> None:
        for index in run.steps(60):
            indices.append(index)
            run.log(go=float(index == 20))

    with in_thread(attached, body):
        wait_until(control, parked_at(0))
        control.resume()
        state = wait_until(control, lambda state: state["parked"] and stop_at.hits == 1)
        assert (state["step"], indices[-1]) == (0, 20)
        control.stop()
    again, second = [], Small()
    with second.attach(tmp_path, run_name="run", resume="auto") as run:
        train(second, again, run)
    assert again == list(range(21, 60))
    assert run.step == 10


def test_gradients_that_are_gathered_over_several_indices_are_one_step(tmp_path):
    small = Small()
    attached = small.attach(tmp_path, start_paused=True)
    control, refused = attached.controller, []

    def body(run: Any) -> None:
        for index in run.steps(8):
            run.log(loss=small.model(run.batch(torch.rand(3, 2))).square().mean())
            small.model(torch.rand(3, 2)).square().mean().backward()
            if index == 4:
                control.pause()
            if index % 4 == 3:
                small.optimizers.step()
                small.optimizers.zero_grad()

    with in_thread(attached, body):
        wait_until(control, parked_at(0))
        control.resume()
        wait_until(control, lambda state: state["parked"] and state["step"] == 1)
        for name in ("back", "save_checkpoint"):
            with pytest.raises(ControlError) as caught:
                ask(control, name)
            refused.append(str(caught.value))
        control.resume()
        wait_until(control, lambda state: state["state"] == "finished")
    assert attached.step == 2
    assert all("step" in each for each in refused)
    assert control.get_state()["checkpoints_off"] is None


def test_loops_one_after_the_other_and_in_epochs_are_resumed_in_the_right_one(tmp_path):
    def train(run: Any, small: Small, done: list[Any], stop: int | None) -> None:
        for epoch in run.epochs(2):
            for name in ("warm", "main"):
                for index in run.steps(3):
                    done.append((epoch, name, index))
                    run.log(loss=small.step())
                    if len(done) == stop:
                        raise KeyboardInterrupt

    whole, parts = [], []
    with Small().attach(tmp_path, run_name="whole") as run:
        train(run, small := Small(), whole, None)
    assert len(whole) == 12
    for stop in (5, 4, None):
        small, done = Small(), []
        try:
            with small.attach(
                tmp_path, run_name="parts", resume="auto", checkpoint_every_steps=1
            ) as run:
                train(run, small, done, stop)
        except KeyboardInterrupt:
            run.opened_run()
        parts.append(done)
    made = parts[0][:4] + parts[1][:3] + parts[2]
    assert made == whole


# -- boundaries that the user calls ---------------------------------------------------------------


def test_step_end_is_a_boundary_of_a_loop_that_cannot_be_a_for(tmp_path):
    small = Small()
    attached = small.attach(tmp_path, start_paused=True)
    control = attached.controller

    def body(run: Any) -> None:
        k = run.keep(done=0)
        while k.done < 6:
            k.done += 1
            run.log(loss=small.step())
            run.step_end()

    with in_thread(attached, body):
        wait_until(control, parked_at(1))
        control.run_until(step=4)
        wait_until(control, parked_at(4))
        answer = ask(control, "back", n=2)
        wait_until(control, parked_at(2))
        assert answer["exact"] is True
        control.resume()
        wait_until(control, lambda state: state["state"] == "finished")
    assert attached.step == 6
    assert len(small.seen) >= 8
    assert torch.equal(small.seen[-4], small.seen[2])


def test_a_loop_with_step_end_continues_where_its_kept_counter_is(tmp_path):
    seen: list[list[int]] = []

    def train(stop: int | None) -> torch.Tensor:
        small = Small()
        seen.append([])
        with small.attach(tmp_path, run_name="run", resume="auto", checkpoint_every_steps=1) as run:
            k = run.keep(done=0)
            while k.done < 6:
                k.done += 1
                seen[-1].append(k.done)
                run.log(loss=small.step(torch.full((3, 2), float(k.done))))
                if k.done == stop:
                    raise KeyboardInterrupt
                run.step_end()
        return small.model[0].weight.detach()

    with pytest.raises(KeyboardInterrupt):
        train(4)
    last = train(None)
    whole = Small()
    for done in range(1, 7):
        whole.step(torch.full((3, 2), float(done)))
    assert seen == [[1, 2, 3, 4], [4, 5, 6]]
    assert torch.equal(last, whole.model[0].weight)


def test_step_end_inside_an_iteration_pauses_and_looks_but_saves_nothing(tmp_path):
    small = Small()
    attached = small.attach(tmp_path)
    control = attached.controller
    control.add_breakpoint("metric", name="part", op="==", value=2.0)

    def body(run: Any) -> None:
        for _ in run.steps(2):
            for part in range(4):
                run.log(loss=small.step(), part=float(part))
                run.step_end()

    with in_thread(attached, body):
        state = wait_until(control, lambda state: state["parked"])
        assert (state["step"], state["breakpoint"]["value"], len(small.seen)) == (0, 2.0, 3)
        for name in ("back", "save_checkpoint"):
            with pytest.raises(ControlError):
                ask(control, name)
        control.stop()
    assert attached.status == "stopped"
    kinds = [e["kind"] for e in FactsReader(attached.dir).events() if "kind" in e]
    assert "checkpoints_off" not in kinds


# -- several optimizers ---------------------------------------------------------------------------


def test_rates_of_several_optimizers_are_set_by_name_and_recorded(tmp_path):
    small = Small(count=2)
    attached = small.attach(tmp_path, start_paused=True)
    control = attached.controller

    def body(run: Any) -> None:
        for _ in run.steps(5):
            run.log(loss=small.step())

    with in_thread(attached, body):
        wait_until(control, parked_at(0))
        with pytest.raises(ControlError, match='2 optimizers, so lr needs optimizer="0"'):
            ask(control, "set_hparams", lr=0.5)
        with pytest.raises(ControlError, match="there is no optimizer 'G'"):
            ask(control, "set_hparams", lr=0.5, optimizer="G")
        ask(control, "set_hparams", lr_mul=0.5)
        control.step(1)
        wait_until(control, parked_at(1))
        answer = ask(control, "set_hparams", lr=0.3, optimizer="1")
        assert answer["old"] == {"lr.1": [0.05]}
        control.step(1)
        wait_until(control, parked_at(2))
        ask(control, "set_hparams", lr=0.01, optimizer="all")
        control.resume()
        wait_until(control, lambda state: state["state"] == "finished")
    assert series(attached.dir, "lr")[1] == [0.05, 0.05, 0.01, 0.01, 0.01]
    assert series(attached.dir, "lr.0")[1] == [0.05, 0.05, 0.01, 0.01, 0.01]
    assert series(attached.dir, "lr.1")[1] == [0.05, 0.3, 0.01, 0.01, 0.01]


def test_a_rate_that_the_loop_sets_itself_is_named_and_not_shown_for_ever(tmp_path, capsys):
    small = Small()
    attached = small.attach(tmp_path, start_paused=True)
    control = attached.controller

    def body(run: Any) -> None:
        for _ in run.steps(4):
            small.optimizers.param_groups[0]["lr"] = 0.0625
            run.log(loss=small.step())

    with in_thread(attached, body):
        wait_until(control, parked_at(0))
        control.step(1)
        wait_until(control, parked_at(1))
        ask(control, "set_hparams", lr=0.5)
        assert control.get_state()["lr"] == 0.5
        control.step(1)
        state = wait_until(control, parked_at(2))
        assert state["lr"] == 0.0625
    words = "set_hparams set lr to 0.5, and the loop set it to 0.0625 before step 2"
    assert words in capsys.readouterr().err
    (fact,) = [
        e for e in FactsReader(attached.dir).events() if e.get("kind") == "hparams_overridden"
    ]
    assert (fact["new"], fact["used"], fact["step"]) == ({"lr": [0.5]}, {"lr": [0.0625]}, 2)


# -- never silent ---------------------------------------------------------------------------------


def counted_rate(training: Training, **settings: Any) -> None:
    """A counter of the user's that decides the learning rate is in no state."""
    small, count = Small(), 0
    with small.attach(**settings) as run:
        training.run, training.model, training.optimizers = run, small.model, [small.optimizers]
        for _ in run.steps(10):
            count += 1
            small.optimizers.param_groups[0]["lr"] = 0.1 / count
            loss = small.step()
            run.log(loss=loss)
            training.losses[run.step + 1] = loss.item().hex()


def test_a_counter_that_is_not_kept_is_named_when_steps_are_made_again(tmp_path):
    words = assert_loop_goes_back(counted_rate, Training, tmp_path, distances=(2,))
    assert "used the learning rate" in words


def fetches_ahead(training: Training, *, before: bool = False, **settings: Any) -> None:
    """The next batch is fetched before the backward pass of this one."""
    small = Small()
    with small.attach(**settings) as run:
        training.run, training.model, training.optimizers = run, small.model, [small.optimizers]
        x = run.batch(torch.rand(3, 2))
        for _ in run.steps(10):
            loss = small.model(x).square().mean()
            x = run.batch(torch.rand(3, 2))
            loss.backward()
            small.optimizers.step()
            small.optimizers.zero_grad()
            run.log(loss=loss)
            training.losses[run.step + 1] = loss.item().hex()


def test_a_batch_that_is_fetched_ahead_under_steps_is_named_and_back_refused(tmp_path):
    words = assert_loop_goes_back(partial(fetches_ahead), Training, tmp_path)
    assert words.count("refused: There is no way back: run.batch was called before") == 2


# -- numbers that were false ----------------------------------------------------------------------


def test_the_gradient_norm_of_a_closure_is_that_of_its_own_step(tmp_path):
    torch.manual_seed(0)
    model, control, norms = nn.Linear(3, 1), DebugController(), []
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=2)
    data = torch.rand(8, 3)
    control.add_breakpoint("grad_norm", limit=1e9)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = (model(data) - 1).square().mean()
        loss.backward()
        return loss

    with attach(model, optimizer, save_dir=tmp_path, controller=control) as run:
        for _ in run.steps(5):
            run.log(loss=optimizer.step(closure))
            norms.append(torch.nn.utils.get_total_norm([p.grad for p in model.parameters()]).item())
    assert series(run.dir, "grad_norm")[1] == pytest.approx(norms)


def test_a_total_is_known_only_where_it_means_something(tmp_path):
    small, endless = (
        Small(),
        torch.utils.data.RandomSampler(range(8), replacement=True, num_samples=10**10),
    )
    loader = torch.utils.data.DataLoader(range(8), batch_size=64, sampler=endless)
    totals = []
    for settings in ({}, {"total_steps": 70}):
        with attach(small.model, small.optimizers, loader, save_dir=tmp_path, **settings) as run:
            for _ in run.epochs(1):
                for _batch in itertools.islice(loader, 2):
                    small.step()
                totals.append(run.controller.get_state()["total_steps"])
    with small.attach(tmp_path) as run:
        for index in run.steps(9):
            totals.append(run.controller.get_state()["total_steps"])
            if index:
                small.step()
            if index == 2:
                break
    assert totals == [None, 70, 9, None, None]
    with pytest.raises(ConfigError, match="total_steps must be a positive number, got 0"):
        small.attach(tmp_path, total_steps=0)


def test_a_phase_is_shown_with_its_time_and_hangs_only_after_what_was_expected(tmp_path):
    ticks = [0.0]
    control = DebugController(clock=lambda: ticks[0])
    small = Small()
    with small.attach(tmp_path, controller=control) as run:
        for index in run.steps(2):
            small.step()
            if index == 0:
                continue
            with run.phase("eval"):
                ticks[0] += 599.0
                state = control.get_state()
                assert (state["phase"], state["phase_s"]) == ("eval", 599.0)
                assert not control.status.boundary_is_due
                with run.phase("inner", expect_s=5):
                    ticks[0] += 4.0
                    assert not control.status.is_overdue
                    ticks[0] += 2.0
                    assert control.status.is_overdue
                    assert control.status.boundary_is_due
                assert control.get_state()["phase"] == "eval"
                assert control.status.is_overdue
            assert control.get_state()["phase"] is None
            with pytest.raises(ConfigError, match="expect_s must be more than 0"):
                run.phase("eval", expect_s=0)


def test_settings_of_an_attached_run_are_in_its_header(tmp_path, capsys):
    from argparse import Namespace
    from dataclasses import dataclass

    from omegaconf import OmegaConf

    @dataclass
    class Settings:
        width: int = 3

    small = Small()
    given = (None, {"lr": 3.0, "api_key": "abc"}, Namespace(width=3), Settings())
    headers = []
    for config in (*given, OmegaConf.create({"net": {"width": 3}})):
        with small.attach(tmp_path, config=config) as run:
            headers.append(FactsReader(run.dir).header()["config"])
    assert [each["lr"] for each in headers] == [0.1, 3.0, 0.1, 0.1, 0.1]
    capsys.readouterr()
    chosen = ["runs", "ls", "--where", "config.lr=3", "--json", "--save-dir", str(tmp_path)]
    assert main(chosen) == 0
    assert [run["config"]["lr"] for run in json.loads(capsys.readouterr().out)] == [3.0]
    assert headers[1]["api_key"] == "***"
    assert headers[2]["width"] == headers[3]["width"] == headers[4]["net"]["width"] == 3
    with pytest.raises(ConfigError, match="config is a int; give a dict"):
        small.attach(tmp_path, config=3)


def test_settings_that_are_nested_are_recorded_without_secrets_or_copies():
    import threading
    from argparse import Namespace
    from dataclasses import dataclass, field

    from midstep.live.loop.run_config import as_settings

    @dataclass
    class Login:
        api_key: str = "abc"

    @dataclass
    class Settings:
        lock: Any = field(default_factory=threading.Lock)
        login: Login = field(default_factory=Login)
        lr: Any = field(default_factory=lambda: torch.tensor(0.5))

    settings = as_settings(Settings())
    assert (settings["login"], settings["lr"]) == ({"api_key": "***"}, 0.5)
    deep: Any = Namespace(api_key="abc")
    for _ in range(9):
        deep = {"inside": [deep]}
    assert "abc" not in str(as_settings({"deep": deep, "near": Namespace(api_key="abc")}))


# -- boundaries that are missed -------------------------------------------------------------------


def numbers() -> Any:
    from torch.utils.data import DataLoader

    return DataLoader(torch.arange(80.0).view(40, 2), batch_size=2)


def test_an_iterator_older_than_attach_is_named_and_its_steps_are_counted(tmp_path, capsys):
    small, loader = Small(), numbers()
    batches = iter(loader)
    attached = attach(small.model, small.optimizers, loader, save_dir=tmp_path, start_paused=False)
    control = attached.controller
    control.run_until(step=4)

    def body(run: Any) -> None:
        for x in itertools.islice(batches, 12):
            run.log(loss=small.step(x / 80))

    with in_thread(attached, body):
        wait_until(control, parked_at(4))
        with pytest.raises(ControlError, match="older than attach"):
            ask(control, "back", n=1)
        control.resume()
        wait_until(control, lambda state: state["state"] == "finished")
    assert attached.step == 12
    assert capsys.readouterr().err.count("an iterator older than attach") == 1
    assert series(attached.dir, "loss")[0] == list(range(1, 13))


def test_a_loop_without_any_boundary_pauses_at_the_steps_of_its_optimizer(tmp_path, capsys):
    small = Small()
    attached = small.attach(tmp_path)
    attached.controller.run_until(step=3)

    def body(run: Any) -> None:
        for _ in range(6):
            run.log(loss=small.step())

    with in_thread(attached, body):
        wait_until(attached.controller, parked_at(3))
        assert "run.steps(n)" in attached.controller.get_state()["checkpoints_off"]
        attached.controller.resume()
        wait_until(attached.controller, lambda state: state["state"] == "finished")
    assert attached.step == 6
    assert capsys.readouterr().err.count("two optimizer steps were made without a boundary") == 1


def test_a_batch_fetched_ahead_of_the_backward_pass_is_named_and_back_breaks_nothing(
    tmp_path, capsys
):
    small, loader, shown = Small(), numbers(), {}
    control = DebugController()
    control.captures.viewer(*IN_VIEW)
    attached = attach(small.model, small.optimizers, loader, save_dir=tmp_path, controller=control)
    control.run_until(step=3)

    def body(run: Any) -> None:
        batches = iter(loader)
        x = next(batches)
        for step in range(1, 9):
            loss = small.model(x / 80).square().mean()
            shown[step], x = x, next(batches)
            loss.backward()
            small.optimizers.step()
            small.optimizers.zero_grad()
            run.log(loss=loss)

    with in_thread(attached, body):
        wait_until(control, parked_at(3))
        assert torch.equal(control.get_batch()["batch"], shown[3])
        with pytest.raises(ControlError, match="before the backward pass"):
            ask(control, "back", n=1)
        control.resume()
        wait_until(control, lambda state: state["state"] == "finished")
    assert attached.step == 8
    assert capsys.readouterr().err.count("before the backward pass of this one") == 1


def test_accumulation_is_not_taken_for_a_batch_that_is_fetched_ahead(tmp_path, capsys):
    small, loader = Small(), numbers()
    with attach(small.model, small.optimizers, loader, save_dir=tmp_path) as run:
        for _ in run.epochs(1):
            for i, x in enumerate(loader):
                small.model(x / 80).square().mean().backward()
                if i % 2:
                    small.optimizers.step()
                    small.optimizers.zero_grad()
        assert run.step == 10
    assert "ahead" not in capsys.readouterr().err
    assert not small.model._forward_hooks


def test_a_loader_that_steps_never_read_is_named(tmp_path, capsys):
    small, loader = Small(), numbers()
    batches = iter(loader)
    with attach(small.model, small.optimizers, loader, save_dir=tmp_path) as run:
        for _ in run.steps(4):
            small.step(next(batches) / 80)
        assert "reads no batch" in str(run._loop._engine.rewind.ring.off)
    assert capsys.readouterr().err.count("the loop reads no batch from the loader") == 1


@pytest.mark.parametrize("loader", [3, object()], ids=["number", "object"])
def test_a_loader_that_cannot_be_iterated_is_one_line(loader, tmp_path):
    small = Small()
    with (
        pytest.raises(ConfigError, match=r"has no __iter__.*run\.steps\(n\)"),
        attach(small.model, small.optimizers, loader, save_dir=tmp_path),
    ):
        pass
    assert not list(tmp_path.iterdir())

"""The exit code after a stop is 0 only if the checkpoint of the stop is on disk."""

from __future__ import annotations

import os
import random
import resource
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, get_worker_info

from midstep.control import Command
from midstep.facts import FactsReader, end_state
from midstep.live import attach, serve
from midstep.session import Session, SessionConfig
from tests.checkers.checkpoints import assert_newest_loads
from tests.checkers.kill import Acknowledge, ForkedChild, warm_up
from tests.data.order.loaders import Case
from tests.live.resumable import Resumable
from tests.session.sessions import Recipe

SMALL = 64 << 10


@pytest.fixture(scope="module", autouse=True)
def warm() -> None:
    warm_up()


def wide_parts() -> tuple[Any, Any, Any]:
    """A model whose checkpoint has 400 kB."""
    model = torch.nn.Linear(200, 500)
    data = [(torch.ones(200), torch.ones(500))] * 8
    return model, torch.optim.SGD(model.parameters(), lr=0.01), DataLoader(data, batch_size=2)


def full_disk() -> None:
    """No file can grow beyond 64 kB from now on."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (SMALL, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))


def stop_by_signal(_controller: Any) -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def stop_by_command(controller: Any) -> None:
    controller.submit(Command(name="stop"))


def stopped_session(folder: Path, stop: Callable[[Any], None]) -> None:
    model, optimizer, loader = wide_parts()
    config = SessionConfig(save_dir=folder, run_name="run", rewind_steps=0)
    with Session(model, optimizer, torch.nn.MSELoss(), loader, config=config) as session:

        @session.on_step
        def end(record: Any) -> None:
            if record.step == 3:
                full_disk()
                stop(session.controller)

        session.fit(steps=10**6)


def stopped_loop(folder: Path, stop: Callable[[Any], None]) -> None:
    model, optimizer, loader = wide_parts()
    with attach(model, optimizer, loader, save_dir=folder, run_name="run", rewind_steps=0) as run:
        for _ in run.epochs(10**6):
            for x, y in loader:
                loss = torch.nn.functional.mse_loss(model(x), y)
                loss.backward()
                optimizer.step()
                run.log(loss=loss)
                if run.step == 2:
                    full_disk()
                    stop(run.controller)


@pytest.mark.parametrize("work", [stopped_session, stopped_loop])
@pytest.mark.parametrize("stop", [stop_by_signal, stop_by_command])
def test_a_stop_whose_checkpoint_cannot_be_written_does_not_exit_with_0(work, stop, tmp_path):
    child = ForkedChild(lambda _acknowledge: work(tmp_path, stop))
    (report,) = child.wait()
    assert report["raised"].startswith("SystemExit: midstep: the checkpoint of step")
    last = FactsReader(tmp_path / "run").events()[-1]
    assert (last["moment"], last["status"]) == ("on_train_end", "stopped")
    assert "the checkpoint of step" in last["unsaved"]


# -- a signal to the whole process group ----------------------------------------------------------


def session_with_workers(folder: Path) -> Callable[[Acknowledge], None]:
    def work(acknowledge: Acknowledge) -> None:
        os.setpgid(0, 0)
        torch.set_num_threads(1)
        recipe = Recipe(case=Case(workers=2))
        with recipe({"save_dir": folder, "run_name": "run"}) as session:
            session.on_step(lambda record: acknowledge(record.step))
            try:
                session.fit(steps=10**6)
            except SystemExit as end:
                acknowledge(["ends with", end.code])

    return work


def served_session_with_workers(folder: Path) -> Callable[[Acknowledge], None]:
    """Here `serve` receives the signal, and `fit` returns."""

    def work(acknowledge: Acknowledge) -> None:
        os.setpgid(0, 0)
        torch.set_num_threads(1)
        recipe = Recipe(case=Case(workers=2))
        try:
            with recipe({"save_dir": folder, "run_name": "run"}) as session:
                session.on_step(lambda record: acknowledge(record.step))
                with serve(session, port=0):
                    session.fit(steps=10**6)
        except SystemExit as end:
            acknowledge(["ends with", end.code])

    return work


def loop_with_workers(folder: Path) -> Callable[[Acknowledge], None]:
    def work(acknowledge: Acknowledge) -> None:
        os.setpgid(0, 0)
        torch.set_num_threads(1)
        training = Resumable(folder, num_workers=2)
        try:
            with training.attach(resume="never") as run:
                training.train(run, lambda seen: acknowledge(seen[0]), epochs=10**6)
        except SystemExit as end:
            acknowledge(["ends with", end.code])

    return work


ROUNDS = 3


@pytest.mark.parametrize(
    "work", [session_with_workers, served_session_with_workers, loop_with_workers]
)
def test_sigterm_to_the_group_always_ends_with_0_and_a_checkpoint(work, tmp_path):
    draw = random.Random(7)
    for number in range(ROUNDS):
        folder = tmp_path / str(number)
        child = ForkedChild(work(folder))
        child.read_until(draw.randrange(3, 12))
        spin_until = time.perf_counter() + draw.random() * 0.01
        while time.perf_counter() < spin_until:  # any moment of a step, or of the loader's wait
            continue
        os.killpg(child.pid, signal.SIGTERM)
        reports = child.wait(timeout_s=60.0)
        assert (reports[-1], child.status) == (["ends with", 0], 0), reports[-3:]
        run_dir = folder / "run"
        assert end_state(run_dir).state == "stopped"
        last = FactsReader(run_dir).events()[-1]
        assert assert_newest_loads(run_dir, []) == last["step"]


def waits_for_a_worker(folder: Path, accumulate: int) -> Callable[[Acknowledge], None]:
    """Its third batch never comes, so that the signal finds it waiting for a worker."""

    class Stuck(torch.utils.data.Dataset[torch.Tensor]):
        def __len__(self) -> int:
            return 8

        def __getitem__(self, index: int) -> torch.Tensor:
            while index == 2 and get_worker_info() is not None:
                time.sleep(0.01)
            return torch.ones(2)

    def work(acknowledge: Acknowledge) -> None:
        os.setpgid(0, 0)
        torch.set_num_threads(1)
        model = torch.nn.Linear(2, 2)
        config = SessionConfig(save_dir=folder, run_name="run", accumulate_steps=accumulate)
        loader = DataLoader(Stuck(), batch_size=1, num_workers=1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        with Session(model, optimizer, torch.nn.MSELoss(), loader, config=config) as session:
            batches: list[int] = []

            @session.training_step
            def step(net: Any, batch: Any) -> Any:
                batches.append(1)
                if len(batches) == 2:
                    acknowledge("waits")
                return net(batch).square().mean()

            try:
                session.fit(steps=10**6)
            except SystemExit as end:
                acknowledge(["ends with", end.code])

    return work


@pytest.mark.parametrize(("accumulate", "saved"), [(1, 2), (2, 1), (3, 0)])
def test_a_signal_while_the_loader_waits_saves_the_last_boundary(tmp_path, accumulate, saved):
    child = ForkedChild(waits_for_a_worker(tmp_path, accumulate))
    child.read_until(1)
    time.sleep(0.3)  # so that the loop is in the wait; other moments are right, too
    os.killpg(child.pid, signal.SIGTERM)
    reports = child.wait(timeout_s=60.0)
    assert (reports[-1], child.status) == (["ends with", 0], 0), reports
    assert assert_newest_loads(tmp_path / "run", []) == saved

"""Loaders that break under `attach`: an error that is told and kept, never a hang."""

from __future__ import annotations

import gc
import os
import signal
import traceback

import pytest
import torch
from torch.utils.data import DataLoader, Dataset, get_worker_info

from midstep.facts import FactsReader, end_state
from midstep.live import attach
from tests.control.loop import until
from tests.live.trainer import Numbers, Plain, in_thread

BREAKS_AT = 13
"""Index of the sample that breaks: in the fourth batch of four."""
LOADER_ERRORS = (RuntimeError, ValueError, OSError, EOFError)
"""A dead worker shows as its signal, as an unexpected exit or as a broken pipe to it."""

kills_a_worker = pytest.mark.filterwarnings(
    "ignore:unclosed file <_io.BufferedRandom name=:ResourceWarning"
)
"""Torch tries temporary files when a worker does not answer, and its own SIGCHLD handler may raise
between the opening of one and its name: the file is then closed by being forgotten."""


class Bad(Dataset):
    """Raises for one sample."""

    def __len__(self) -> int:
        return 24

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        if index == BREAKS_AT:
            raise ValueError(f"sample {index} cannot be read")
        return Numbers()[index]


class Deadly(Dataset):
    """Kills its own worker for one sample, as the kernel does when memory runs out."""

    def __len__(self) -> int:
        return 24

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        if index == BREAKS_AT:
            assert get_worker_info() is not None  # never the test itself
            os.kill(os.getpid(), signal.SIGKILL)
        return Numbers()[index]


@pytest.fixture(autouse=True)
def let_go_of_workers(monkeypatch):
    """Workers end with their iterator, which a caught error's frames hold on to in a cycle."""
    monkeypatch.setattr(torch.utils.data._utils, "MP_STATUS_CHECK_INTERVAL", 0.5)
    yield
    gc.collect()


def train_on(dataset: Dataset, folder: object, workers: int):
    """The run, and the error that came out of its block."""
    plain = Plain()
    plain.loader = DataLoader(dataset, batch_size=4, num_workers=workers)
    attached = attach(*plain.parts, save_dir=folder)
    with pytest.raises(LOADER_ERRORS) as caught, attached as run:
        plain.train(run, epochs=1)
    return attached, "".join(traceback.format_exception_only(caught.value)).strip()


def assert_failure_is_kept(run, words: str) -> None:
    reader = FactsReader(run.dir)
    (failure,) = [event for event in reader.events() if event["moment"] == "on_exception"]
    assert words in failure["error"]
    assert failure["step"] == run.step
    assert reader.problems == []
    assert end_state(run.dir).state == "failed"
    if run.step:  # a worker may die before the first batch came
        assert reader.series(["loss"])["loss"].step.tolist() == list(range(1, run.step + 1))


@pytest.mark.parametrize("workers", [0, 2])
def test_a_dataset_that_raises_fails_the_run_with_its_own_error(tmp_path, workers):
    run, error = train_on(Bad(), tmp_path, workers)
    assert error.startswith("ValueError")
    assert_failure_is_kept(run, "sample 13 cannot be read")
    assert run.step == 3


@kills_a_worker
def test_a_killed_loader_worker_is_an_error_and_not_a_hang(tmp_path):
    run, error = train_on(Deadly(), tmp_path, 1)
    assert_failure_is_kept(run, error)
    assert run.step <= 3


def tell_of_a_dead_worker(_number, _frame):
    """What torch's own handler does."""
    raise RuntimeError("DataLoader worker is killed by signal: Killed.")


def fail_while_children_die(attached, plain, monkeypatch):
    """A loop that breaks just before the news of its dead worker come, in the middle of a write."""
    with attached as run:
        write = run.facts.event

        def disturbed(*args, **fields):
            os.kill(os.getpid(), signal.SIGCHLD)
            return write(*args, **fields)

        signal.signal(signal.SIGCHLD, tell_of_a_dead_worker)
        run.log(loss=plain.step(next(iter(plain.loader))[0]))
        monkeypatch.setattr(run.facts, "event", disturbed)
        raise ConnectionResetError("the worker was gone")


def test_news_of_a_dead_worker_do_not_tear_the_record_of_the_failure(tmp_path, monkeypatch):
    """Torch's handler raises wherever the main thread is, so also where we write it down."""
    plain = Plain()
    attached = attach(*plain.parts, save_dir=tmp_path)
    before = signal.getsignal(signal.SIGCHLD)
    try:
        with pytest.raises(ConnectionResetError):
            fail_while_children_die(attached, plain, monkeypatch)
        assert signal.getsignal(signal.SIGCHLD) is tell_of_a_dead_worker
    finally:
        signal.signal(signal.SIGCHLD, before)
    events = FactsReader(attached.dir).events()
    failed = [event for event in events if event["moment"] == "on_exception"]
    assert [event["error_type"] for event in failed] == ["ConnectionResetError"]
    assert end_state(attached.dir).state == "failed"


def kill_the_worker_while_parked(attached, plain):
    found: list[int] = []

    def body(run):
        batches = iter(plain.loader)
        found.append(batches._workers[0].pid)
        for x, _y in batches:
            run.log(loss=plain.step(x))

    controller = attached.controller
    with in_thread(attached, body):
        until(lambda: controller.is_parked, controller)
        os.kill(found[0], signal.SIGKILL)
        assert controller.is_parked
        controller.resume()
        until(lambda: controller.get_state()["state"] == "failed", controller)


@kills_a_worker
@pytest.mark.soak
def test_a_worker_killed_while_the_run_is_paused_is_told_at_the_next_step(
    tmp_path, record_property
):
    """The kill comes from outside, while the training thread stands at its boundary."""
    plain = Plain(400, num_workers=1, prefetch_factor=2)
    attached = attach(*plain.parts, save_dir=tmp_path, start_paused=True)
    with pytest.raises(LOADER_ERRORS):
        kill_the_worker_while_parked(attached, plain)
    assert_failure_is_kept(attached, "")
    record_property("figure", "1 worker killed during a pause, named at the next step")


def look_at_the_parked_failure(attached, plain):
    controller = attached.controller
    with in_thread(attached, lambda run: plain.train(run, epochs=1)):
        until(lambda: controller.is_parked, controller)
        state = controller.get_state()
        assert (state["state"], state["step"]) == ("failed", 3)
        assert "sample 13 cannot be read" in state["reason"]


def test_a_dataset_that_raises_parks_the_run_with_its_reason(tmp_path):
    plain = Plain()
    plain.loader = DataLoader(Bad(), batch_size=4)
    attached = attach(*plain.parts, save_dir=tmp_path, on_error="park")
    with pytest.raises(ValueError, match="sample 13"):
        look_at_the_parked_failure(attached, plain)
    assert_failure_is_kept(attached, "sample 13 cannot be read")

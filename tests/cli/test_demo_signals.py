"""Signals and closed pipes on a real `midstep demo`: no traceback, no hang, a true end state."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from midstep.client import Client
from midstep.facts import FactsReader, end_state
from midstep.session import Run
from tests.cli.test_demo_command import DEMO, LIMIT_S, Started, only_run, started

LONG = ("--steps", "1000000")
IN_A_STEP = """
import sys, time
from midstep.loops.bcl import BclTraining
step, made = BclTraining.training_step, []
def long_step(self, model, batch):
    made.append(batch)
    if len(made) == 4:
        print("in a long step", flush=True)
        time.sleep(600)
    return step(self, model, batch)
BclTraining.training_step = long_step
from midstep.cli.main import main
sys.exit(main(["demo", *sys.argv[1:]]))
"""


@pytest.fixture(autouse=True)
def counted(record_property: Callable[[str, object], None]) -> Iterator[None]:
    """The report of long tests has their number."""
    yield
    record_property("count", "1 demos that were interrupted or had no output")


def long(value: object) -> object:
    """A case for the soak: each starts a demo, which loads torch."""
    return pytest.param(value, marks=pytest.mark.soak)


@contextmanager
def stuck_in_a_step(cwd: Path) -> Iterator[tuple[Started, Client]]:
    """A served demo whose fourth step takes ten minutes: a first signal finds no boundary."""
    process = subprocess.Popen(
        [sys.executable, "-c", IN_A_STEP, *LONG, "--port", "0"],
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    live = Started(process)
    try:
        base, _, token = live.read_until("page ").split()[1].partition("/#token=")
        live.read_until("in a long step")
        yield live, Client(base, token=token)
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdout, process.stderr):
            assert pipe is not None
            pipe.close()


def said(live: Started) -> str:
    """What stood on standard error once the process has ended."""
    assert live.process.stderr is not None
    return live.process.stderr.read()


def wait_for(client: Client, holds: Callable[[dict[str, Any]], bool]) -> None:
    """Each look is a request, so this does not spin."""
    deadline = time.monotonic() + LIMIT_S
    while not holds(client.state()):
        assert time.monotonic() < deadline, client.state()


def assert_the_next_start_is_clean(run_dir: Path) -> None:
    """I4: no lock and no temporary file stands in the way; what was written is whole."""
    assert FactsReader(run_dir).problems == []
    with Run(name="demo", run_dir=run_dir, existing="continue") as again:
        assert again.attempt == 2
    assert end_state(run_dir).state == "finished"
    assert [path for path in run_dir.rglob("*") if ".tmp" in path.name] == []


@pytest.mark.parametrize("number", [signal.SIGTERM, long(signal.SIGINT), long(signal.SIGHUP)])
def test_a_second_signal_ends_a_long_step_at_once(tmp_path: Path, number: signal.Signals) -> None:
    with stuck_in_a_step(tmp_path) as (live, client):
        live.process.send_signal(number)
        wait_for(client, lambda state: state["stopped"])
        assert live.process.poll() is None
        live.process.send_signal(number)
        assert live.finish() == 128 + number
        assert said(live) == ""
    run_dir = only_run(tmp_path)
    assert end_state(run_dir).state == "killed"
    steps = FactsReader(run_dir).series(["loss"])["loss"].step.tolist()
    assert steps == [1, 2, 3]
    assert_the_next_start_is_clean(run_dir)


def test_three_interrupts_in_a_row_end_the_demo_without_a_traceback(tmp_path: Path) -> None:
    """Whichever comes last finds it running, stopping or gone."""
    with started(*LONG, "--port", "0", cwd=tmp_path) as live:
        live.read_until("page ")
        for _ in range(3):
            live.process.send_signal(signal.SIGINT)
        code = live.finish()
        assert said(live) == ""
    state = end_state(only_run(tmp_path)).state
    assert (code, state) in [(0, "stopped"), (130, "killed"), (130, "stopped")]
    assert_the_next_start_is_clean(only_run(tmp_path))


@pytest.mark.soak
def test_two_different_signals_at_one_instant_end_it_at_once(tmp_path: Path) -> None:
    with started(*LONG, "--start-paused", "--no-serve", cwd=tmp_path) as live:
        live.read_until("PAUSED at step 0")
        live.process.send_signal(signal.SIGSTOP)
        live.process.send_signal(signal.SIGINT)
        live.process.send_signal(signal.SIGTERM)
        live.process.send_signal(signal.SIGCONT)
        assert live.finish() == 128 + signal.SIGTERM
        assert said(live) == ""
    assert end_state(only_run(tmp_path)).state == "killed"
    assert_the_next_start_is_clean(only_run(tmp_path))


@pytest.mark.parametrize("number", [signal.SIGHUP, long(signal.SIGTERM)])
def test_a_closed_pipe_and_then_a_signal_stop_at_the_boundary(
    tmp_path: Path, number: signal.Signals
) -> None:
    """The reader of its output goes first, as when a terminal is closed; then the signal comes."""
    with started(*LONG, "--start-paused", "--port", "0", cwd=tmp_path) as live:
        base, _, token = live.read_until("page ").split()[1].partition("/#token=")
        live.read_until("PAUSED at step 0")
        assert live.process.stdout is not None
        live.process.stdout.close()
        client = Client(base, token=token)
        client.step(2)  # it has a line to say about this, to nobody
        wait_for(client, lambda state: state["step"] == 2)
        client.resume()
        live.process.send_signal(number)
        assert live.process.wait(LIMIT_S) == 0
        assert said(live) == ""
    assert end_state(only_run(tmp_path)).state == "stopped"


@pytest.mark.parametrize("closed", ["<&- >&- 2>&-", long(">&-"), long(">&- 2>&-")])
def test_a_demo_without_any_output_trains_to_its_end(tmp_path: Path, closed: str) -> None:
    command = f"exec {' '.join(DEMO)} --steps 30 --port 0 {closed}"
    answer = subprocess.run(
        ["bash", "-c", command], cwd=tmp_path, capture_output=True, timeout=LIMIT_S, check=False
    )
    assert (answer.returncode, answer.stdout, answer.stderr) == (0, b"", b"")
    run_dir = only_run(tmp_path)
    assert end_state(run_dir).state == "finished"
    assert FactsReader(run_dir).problems == []


INTERRUPTED_WHILE_LOADING = """
import os, runpy, signal, sys
class Interrupts:
    def find_spec(self, name, *rest):
        if name == "typer":
            for _ in range(3):
                os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupts())
runpy.run_module("midstep", run_name="__main__")
"""


def test_interrupts_while_the_commands_load_end_without_a_traceback(tmp_path: Path) -> None:
    answer = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_WHILE_LOADING, "demo"],
        cwd=tmp_path,
        capture_output=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert (answer.returncode, answer.stdout, answer.stderr) == (130, b"", b"")
    assert not (tmp_path / "outputs").exists()

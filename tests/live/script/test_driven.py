"""A script under `midstep run` is paused, stepped, stopped, parked and interrupted."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from midstep.client import Client
from midstep.core.errors import ClientError
from midstep.facts import FactsReader, end_state
from midstep.live.script.program import process
from midstep.live.script.script_steps import ScriptSteps
from tests.warm import WarmProcess

SCRIPTS = Path(__file__).parent / "scripts"
PROCESS = str(Path(process.__file__))
OPTIONS = {"breakpoints": [], "save_dir": "runs", "port": 0}


Start = Callable[..., WarmProcess]


@pytest.fixture
def start(tmp_path) -> Iterator[Start]:
    """Starts a script as `midstep run` does, in a process that has torch already."""
    started: list[WarmProcess] = []

    def start(name: str, *arguments: str, **options: Any) -> WarmProcess:
        script = str(SCRIPTS / f"{name}.py")
        given = json.dumps({**OPTIONS, **options})
        process = WarmProcess(PROCESS, given, script, *arguments, cwd=tmp_path, program="python")
        started.append(process)
        return process

    yield start
    for each in started:
        each.kill()
        each.wait()
        each.stdout.close()
        each.stderr.close()


def page_of(process: WarmProcess) -> Client:
    """A client of the page whose address the process prints."""
    for line in process.stderr:
        if line.startswith("midstep: page "):
            return Client(line.split()[2])
    pytest.fail("no page")


def wait_until_parked(client: Client) -> None:
    deadline = time.monotonic() + 60
    while not client.state()["parked"]:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def only_run(folder: Path) -> Path:
    (directory,) = (folder / "runs").iterdir()
    return directory


def test_a_paused_script_is_stepped_looked_at_and_stopped(tmp_path, start):
    script = start("endless", starts_paused=True, breakpoints=["step == 7"])
    client = page_of(script)
    wait_until_parked(client)
    assert client.state()["step"] == 0
    client.step(2)
    state = client.state()
    assert (state["step"], state["lr"], state["parked"]) == (2, 0.01, True)
    assert state["has_batch"]
    assert "layers" in state["step_data_keys"]
    rewind = client.rewind()
    assert not rewind["available"]
    assert "local variables" in rewind["reason"]
    with pytest.raises(ClientError, match="local variables"):
        client.back(1)
    client.resume()
    wait_until_parked(client)
    assert client.state()["step"] == 7
    client.set_hparams(lr=0.5)
    client.step(2)
    assert client.state()["lr"] == 0.5
    client.stop()
    out, err = script.communicate(60)
    assert (out, script.wait()) == ("finally\n", 0)
    assert err.splitlines()[-1] == "midstep: stopped after 9 steps"
    assert "Traceback" not in err
    assert end_state(only_run(tmp_path)).state == "stopped"


def wait_for(client: Client, phase: str | None) -> dict[str, Any]:
    deadline = time.monotonic() + 60
    while (state := client.state())["phase"] != phase:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return state


def test_a_long_evaluation_is_shown_as_a_phase(tmp_path, start):
    script = start("evaluates")
    client = page_of(script)
    state = wait_for(client, "without gradients")
    assert (state["state"], state["step"]) == ("running", 1)
    assert state["phase_s"] is not None
    (tmp_path / "enough").touch()
    wait_for(client, None)
    client.stop()
    script.communicate(60)
    assert script.wait() == 0


def test_the_losses_of_samples_of_a_usual_script_are_known(start):
    script = start("loader", starts_paused=True)
    client = page_of(script)
    wait_until_parked(client)
    client.step(2)
    batch = client.batch()
    assert batch["loss_note"] is None
    assert sum(batch["losses"]) / 8 == pytest.approx(batch["loss"], rel=1e-5)
    assert sum(batch["loss_shares"]) == pytest.approx(1)
    assert set(batch["predictions"]) <= {0, 1, 2}
    client.stop()
    script.communicate(60)
    assert script.wait() == 0


def test_an_exception_ends_the_process_unless_it_parks(tmp_path, start):
    ends = start("endless", "3")
    _, err = ends.communicate(60)
    assert ends.wait() == 1
    trace = err[err.index("Traceback") :]
    assert trace.count("File ") == 1
    assert "endless.py" in trace
    run = only_run(tmp_path)
    assert end_state(run).state == "failed"
    (error,) = [e for e in FactsReader(run).events() if e["moment"] == "on_exception"]
    assert error["step"] == 3
    assert error["traceback"].strip() == trace.strip()


def test_a_parked_script_shows_its_error_and_then_ends_as_alone(tmp_path, start):
    parked = start("endless", "3", parks=True)
    client = page_of(parked)
    wait_until_parked(client)
    assert "the end of the data" in client.state()["reason"]
    client.resume()
    out, err = parked.communicate(60)
    assert (out, parked.wait()) == ("finally\n", 1)
    assert err.endswith("RuntimeError: the end of the data\n")


def test_ctrl_c_in_a_paused_script_ends_it_as_alone(tmp_path, start):
    script = start("endless", starts_paused=True)
    wait_until_parked(page_of(script))
    script.send_signal(signal.SIGINT)
    out, err = script.communicate(60)
    assert (out, script.wait()) == ("finally\n", -signal.SIGINT)
    trace = err[err.index("Traceback") :]
    assert trace.endswith("KeyboardInterrupt\n")
    assert "midstep" not in trace
    assert "threading" not in trace
    assert end_state(only_run(tmp_path)).state == "stopped"


def test_it_steps_aside_if_the_script_uses_midstep(tmp_path, start):
    script = start("aside")
    out, err = script.communicate(60)
    assert (out, script.wait()) == ("3\n", 0)
    assert "the script opens a run itself" in err
    assert not (tmp_path / "runs").exists()
    assert end_state(tmp_path / "own" / "own").state == "finished"


def test_a_script_without_a_step_is_told_that_its_processes_are_not_watched(tmp_path, start):
    _, err = start("known", has_page=False).communicate(60)
    assert "there is no run: no optimizer of torch.optim made a step in this process" in err
    assert "those that it starts are not watched" in err


def test_settings_that_hydra_composes_are_those_of_the_run(tmp_path, start):
    (tmp_path / "config.yaml").write_text("model: {width: 3}\nlr: 0.1\n")
    given = [f"--config-dir={tmp_path}", "lr=0.2", f"hydra.run.dir={tmp_path}/out"]
    script = start("composed", *given, has_page=False)
    assert script.wait(60) == 0
    (header,) = [e for e in FactsReader(only_run(tmp_path)).events() if e["moment"] == "on_start"]
    assert header["config"]["lr"] == 0.2
    assert header["config"]["model"] == {"width": 3}
    assert "hydra" not in header["config"]


LATE = """
import torch
a, b = torch.nn.Linear(2, 2), torch.nn.Linear(2, 1)
first = torch.optim.SGD(a.parameters(), lr=0.1)
for step in range(4):
    if step == 2:
        second = torch.optim.Adam(b.parameters(), lr=0.1)
    b(a(torch.ones(1, 2))).sum().backward()
    first.step()
    if step >= 2:
        second.step()
"""


def test_an_optimizer_that_is_made_after_the_first_step_is_a_fact(tmp_path, start):
    (tmp_path / "late.py").write_text(LATE)
    assert start(str(tmp_path / "late"), has_page=False).wait(60) == 0
    events = list(FactsReader(only_run(tmp_path)).events())
    (header,) = [e for e in events if e["moment"] == "on_start"]
    assert header["config"]["optimizers"] == ["SGD"]
    (late,) = [e for e in events if e.get("kind") == "optimizer"]
    assert (late["name"], late["optimizer"], late["step"]) == ("second", "Adam", 2)
    series = FactsReader(only_run(tmp_path)).series(["lr", "lr.second"])
    assert series["lr"].step.tolist() == [1, 2, 3, 4]
    assert series["lr.second"].step.tolist() == [3, 4]


def test_the_first_pause_without_a_page_says_how_to_go_on(tmp_path, start):
    script = start("endless", has_page=False, starts_paused=True, breakpoints=["step == 3"])
    said = []
    for line in script.stderr:
        said.append(line)
        if line.startswith("midstep: paused"):
            break
    assert said[-1] == (
        "midstep: paused before the first step; continue from another terminal with: "
        "midstep ctl resume --save-dir runs\n"
    )
    client = Client.find(tmp_path / "runs")
    client.resume()
    wait_until_parked(client)
    assert client.state()["step"] == 3
    client.stop()
    _, err = script.communicate(60)
    assert script.wait() == 0
    assert "midstep: paused" not in err


def test_of_a_group_only_the_first_rank_is_looked_at_and_never_pauses(tmp_path, start):
    group = str(tmp_path / "group")
    ranks = [
        start("ranks", str(rank), group, starts_paused=True, has_page=False) for rank in (0, 1)
    ]
    errors = [rank.communicate(60)[1] for rank in ranks]
    assert [rank.wait() for rank in ranks] == [0, 0]
    assert "rank 0 of 2: it can be looked at, and not be paused" in errors[0]
    assert "midstep: run" not in errors[1]
    loss = FactsReader(only_run(tmp_path)).series(["loss"])["loss"]
    assert (loss.step.tolist(), loss.low.tolist()) == ([1, 2, 3], [4, 4, 4])


def test_nothing_is_done_while_a_graph_is_captured(monkeypatch):
    monkeypatch.setattr("midstep.live.script.script_steps.is_capturing", lambda: True)
    steps = ScriptSteps(watched=None)
    optimizer = object()
    steps.optimizer_made(optimizer)  # would fail: this is no optimizer
    steps.before_batch()
    assert not steps.backward_begins(None, None)
    steps.before_step(optimizer, (optimizer,), {})
    steps.after_step(optimizer)
    assert steps.optimizer_steps == 0
    assert not steps.is_off

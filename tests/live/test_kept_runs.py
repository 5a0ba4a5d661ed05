"""What is kept of a run that has ended in any way, read as the page reads it."""

from __future__ import annotations

import signal
import stat
import time
from contextlib import nullcontext
from pathlib import Path

import pytest

from midstep.facts import FactsReader
from midstep.facts.deletion import plan_deletion
from midstep.facts.format.stop_files import list_stops
from midstep.facts.read.console_text import as_printed, read_console
from midstep.server.root_server import RootServer, RootServerConfig
from midstep.session import Session
from midstep.session.config import SessionConfig
from tests.live.kept_trainings import STEPS_OF_A_PASS, STOP, Images, resuming
from tests.served import Served
from tests.warm import WarmProcess

SCRIPT = Path(__file__).with_name("kept_trainings.py")
PATIENCE_S = 60.0
LAST = 2 * STEPS_OF_A_PASS
END = f"{LAST}-end"


def ended_by_signal(folder: Path, name: str, number: signal.Signals) -> int:
    """Run the script until it has passed its stop, then send the signal; returns the exit code."""
    process = WarmProcess(str(SCRIPT), str(folder), name, cwd=folder, program="python")
    deadline = time.monotonic() + PATIENCE_S
    while "epoch 0 is over" not in read_console(folder / name, after=0).text:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(number)
    process.communicate(PATIENCE_S)
    return process.wait(PATIENCE_S)


def train_in_a_loop(folder: Path, name: str, settings: dict, error_at: int | None) -> None:
    images = Images()
    expected = nullcontext() if error_at is None else pytest.raises(ValueError, match="bad batch")
    with expected, images.attach(folder, name, **settings) as run:
        thread = resuming(run)
        images.train(run, error_at=error_at)
    thread.join()


def train_in_a_session(folder: Path) -> None:
    images = Images()
    config = SessionConfig(save_dir=folder, run_name="session")
    with Session(images.model, images.optimizer, images.loss, images.loader, config=config) as it:
        it.fit(epochs=2)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Runs that have ended in all ways, by name."""
    root = tmp_path_factory.mktemp("outputs")
    runs = root / "runs"
    runs.mkdir()
    off = {"evidence": False, "console": False}
    for name, settings in {"finished": {}, "off": off, "failed": {}}.items():
        train_in_a_loop(runs, name, settings, error_at=9 if name == "failed" else None)
    train_in_a_session(runs)
    assert ended_by_signal(runs, "stopped", signal.SIGTERM) == 0
    assert ended_by_signal(runs, "killed", signal.SIGKILL) == -signal.SIGKILL
    return runs


class Kept:
    """One of these runs, on a server over all of them."""

    def __init__(self, served: Served, run_id: str) -> None:
        self._served, self.path = served, f"/api/v1/runs/{run_id}"

    def get(self, path: str, *, token: str = "control"):
        return self._served.ask("GET", f"{self.path}/{path}", token=token)

    def json(self, path: str):
        answer = self.get(path)
        assert answer.status == 200, answer.body
        return answer.json()


@pytest.fixture(scope="module")
def runs(folder):
    with RootServer(RootServerConfig(outputs=folder.parent, port=0)) as root:
        port = int(root.base.rsplit(":", 1)[1])
        served = Served(None, root.app.state.runs, root.tokens.now, root.app, root.base, port, root)
        listed = served.ask("GET", "/api/v1/runs").json()["runs"]
        yield {run["name"]: Kept(served, run["id"]) for run in listed}


def test_a_finished_run_shows_its_last_batch_layers_breakpoints_and_total(runs):
    run = runs["finished"]
    state = run.json("debug/state")
    assert (state["state"], state["step"], state["total_steps"]) == ("finished", LAST, LAST)
    assert (state["has_batch"], state["batch_step"]) == (True, LAST - 1)
    batch = run.json("debug/batch")
    assert (batch["kind"], batch["step"], batch["count"]) == ("images", LAST - 1, 4)
    assert batch["labels"] == [20 % 3, 21 % 3, 22 % 3, 23 % 3]
    assert batch["losses"] is not None
    assert run.get("debug/batch/picture").body.startswith(b"\x89PNG")
    sample = run.json("debug/batch/sample?index=2")
    assert (sample["width"], sample["label"], sample["loss"]) == (8, 1, batch["losses"][2])
    layers = run.json("debug/step_data/layers")
    assert layers["step"] == LAST
    assert min(layers["data"]["update_norm"]) > 0
    hits = {each["words"]: each["hit_steps"] for each in run.json("debug/breakpoints")}
    assert hits == {f"step = {STOP}": [STOP], "loss z-score > 50": []}


def test_a_stop_shows_its_own_batch_layers_and_console(runs):
    run = runs["finished"]
    (stop,) = run.json("evidence")["stops"]
    assert (stop["id"], stop["cause"], stop["lasted_s"] is not None) == ("4", "breakpoint", True)
    assert stop["breakpoint"]["condition"] == f"step = {STOP}"
    batch = run.json(f"debug/batch?stop={STOP}")
    assert (batch["step"], batch["sample_ids"]) == (STOP - 1, [12, 13, 14, 15])
    assert run.json(f"debug/step_data/layers?stop={STOP}")["step"] == STOP
    assert run.json(f"debug/step_data/keys?stop={STOP}")["keys"] == ["layers"]
    console = run.json(f"console?stop={STOP}")
    assert "epoch 0" not in console["text"]
    evidence = [event for event in run.json("events")["events"] if event.get("kind") == "evidence"]
    assert [(event["stop"], event["cause"]) for event in evidence] == [(str(STOP), "breakpoint")]


def test_a_failed_run_shows_the_batch_that_failed_and_its_traceback(runs):
    run = runs["failed"]
    assert run.json("debug/batch")["sample_ids"] == [12, 13, 14, 15]
    end = run.json("evidence")["end"]
    assert (end["cause"], end["reason"]) == ("exception", "ValueError: a bad batch")
    assert (end["step"], end["batch_step"]) == (9, 9)
    text = as_printed(run.json("console")["text"])
    assert text.startswith("epoch 0 is over\n")
    assert text.endswith("ValueError: a bad batch\n")
    checkpoints = run.json("evidence")["checkpoints"]
    assert checkpoints[-1]["step"] in (STOP, STEPS_OF_A_PASS)


def test_a_run_that_sigterm_stopped_shows_its_end_and_the_signal(runs):
    run = runs["stopped"]
    kept = run.json("evidence")
    assert (kept["end"]["cause"], kept["end"]["reason"]) == ("stopped", "SIGTERM")
    assert kept["shown"] == kept["end"]["id"]
    assert kept["end"]["batch_step"] == kept["end"]["step"] - 1
    assert run.json("debug/batch")["step"] == kept["end"]["batch_step"]
    assert kept["checkpoints"][-1]["step"] == kept["end"]["step"]


def test_a_killed_run_shows_its_last_stop_and_what_it_printed(runs):
    run = runs["killed"]
    assert run.json("debug/state")["state"] == "killed"
    kept = run.json("evidence")
    assert (kept["end"], kept["shown"]) == (None, str(STOP))
    assert run.json("debug/batch")["step"] == STOP - 1
    assert [each["hits"] for each in run.json("debug/breakpoints")] == [1, 0]
    assert run.json("console")["text"].startswith("this is killed\n")


def test_a_session_keeps_its_end_as_a_loop_of_the_user_does(runs):
    run = runs["session"]
    assert run.json("debug/batch")["labels"] == [2, 0, 1, 2]
    assert min(run.json("debug/step_data/layers")["data"]["update_norm"]) > 0


def test_evidence_off_keeps_samples_off_the_disk_and_says_so(runs, folder):
    run = runs["off"]
    end = run.json("evidence")["end"]
    assert end["not_kept"] == {"batch": "evidence=False keeps samples off the disk"}
    assert run.json("debug/step_data/layers")["step"] == LAST
    assert [each["hits"] for each in run.json("debug/breakpoints")] == [1, 0]
    refused = run.get("debug/batch")
    assert (refused.status, "evidence=False" in refused.json()["message"]) == (404, True)
    assert run.json("console")["text"] == ""
    for path in (folder / "off").rglob("*"):
        assert "batch" not in path.name, path


def test_a_view_only_link_gets_pictures_layers_and_reasons_and_no_printed_text(runs):
    run = runs["failed"]
    for path in (
        "evidence",
        "debug/batch",
        f"debug/batch?stop={STOP}",
        "debug/batch/picture",
        "debug/batch/sample?index=0",
        "debug/step_data/layers",
        "debug/breakpoints",
    ):
        assert run.get(path, token="viewer").status == 200, path
    files = {each["path"]: each["id"] for each in run.json("files")["files"]}
    for path in ("console", f"console?stop={STOP}"):
        assert run.get(path, token="viewer").status == 403, path
    for name in ("console.log", f"artifacts/evidence/{STOP}.zip", "artifacts/packages.txt"):
        assert run.get(f"files/{files[name]}").status == 200, name
        assert run.get(f"files/{files[name]}", token="viewer").status == 403, name
    for path in ("evidence", "debug/batch", "events"):
        assert b"epoch 0 is over" not in run.get(path).body


@pytest.mark.parametrize("stop", ["5", "../4", "4.zip", "%00", "x" * 64, "04", ""])
def test_an_unknown_stop_is_a_404_like_every_other(runs, stop):
    unknown = runs["finished"].get("debug/batch?stop=999")
    answer = runs["finished"].get(f"debug/batch?stop={stop}")
    assert (answer.status, answer.body) == (404, unknown.body)


def test_every_file_is_for_its_owner_alone_and_goes_with_the_run(folder):
    for name in ("finished", "failed", "stopped", "killed", "off", "session"):
        run_dir = folder / name
        assert plan_deletion(run_dir).foreign == []
        kept = [*run_dir.glob("console*"), *run_dir.glob("artifacts/evidence/*")]
        assert {stat.S_IMODE(path.stat().st_mode) for path in kept} == {0o600}
        assert stat.S_IMODE((run_dir / "artifacts" / "evidence").stat().st_mode) == 0o700
        assert not (run_dir / "lease.json").exists() or name == "killed"


def test_a_stop_is_a_fact_and_the_end_has_its_own_record(folder):
    for name in ("finished", "failed", "stopped"):
        events = FactsReader(folder / name).events()
        kept = [event for event in events if event.get("kind") == "evidence"]
        assert [event["stop"] for event in kept] == [str(STOP)]
        assert sum(event["moment"] in ("on_train_end", "on_exception") for event in events) == 1
        assert list_stops(folder / name)[-1].is_end

"""The last stop over HTTP, in Python and in the terminal; live, stored, view-only and damaged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import midstep
from midstep.cli.main import main
from midstep.client import Client
from midstep.facts import FactsWriter
from midstep.server.debug.diagnosis_schemas import DiagnosisOut
from midstep.server.root_server import RootServer, RootServerConfig
from tests.live.stopped import ImageLoop, stopped
from tests.served import Served
from tests.server.test_stored_runs import served_over

ROUTE = "diagnosis"


@pytest.fixture(scope="module")
def record() -> dict[str, Any]:
    """A diagnosis as a run makes it."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        loop = ImageLoop()
        with stopped(midstep.attach(*loop.parts, save_dir=folder), loop.train) as why:
            return why


def asked(served: Served, token: str = "control") -> dict[str, Any]:
    answer = served.ask("GET", f"{served.debug}/{ROUTE}", token=token)
    assert answer.status == 200
    return answer.json()


def test_before_a_stop_there_is_none(served: Served) -> None:
    assert asked(served) == {"diagnosis": None, "failure": None}


def test_a_live_run_names_its_cause_to_every_link(served: Served, record: dict[str, Any]) -> None:
    served.controller.status.diagnosed(record)
    served.controller.status.note_failure(
        "ValueError: no", "Traceback: key='s3cret'", 4, in_model=True
    )
    for token in ("control", "viewer"):
        stop = asked(served, token)
        DiagnosisOut.model_validate(stop["diagnosis"])
        assert stop["diagnosis"]["cause"] == record["cause"]
        assert stop["failure"]["error"] == "ValueError: no"
    assert asked(served)["failure"]["traceback"] == "Traceback: key='s3cret'"
    assert asked(served, "viewer")["failure"]["traceback"] is None


def test_a_view_only_link_gets_no_traceback_from_the_events_either(served: Served) -> None:
    served.run.facts.event("on_exception", error="ValueError: no", traceback="key='s3cret'", step=4)
    path = f"/api/v1/runs/{served.run.run_id}/events"
    assert b"s3cret" in served.ask("GET", path).body
    shown = served.ask("GET", path, token="viewer")
    assert b"s3cret" not in shown.body
    assert shown.json()["events"][-1]["error"] == "ValueError: no"


def test_client_and_terminal_name_the_cause(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    loop = ImageLoop()
    run = midstep.attach(*loop.parts, save_dir=tmp_path, serve=True, port=0)
    with stopped(run, loop.train) as why:
        client = Client(run.url)
        answer = client.why()["diagnosis"]
        assert answer["cause"] == why["cause"]
        assert answer["layers"][1]["gradient"] != answer["layers"][1]["gradient"]  # NaN again
        assert client.state()["breakpoint"]["cause"] == why["cause"]
        capsys.readouterr()
        assert main(["ctl", "why", "--save-dir", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert "step 5: Loss is NaN. First non-finite: input of sample 37 → conv1 output" in shown
    assert "sample 37: 16 of 64 values, rows 3 to 4, all NaN" in shown
    assert "first bad layer" in shown
    assert "First, explains the rest" in shown


def test_a_stored_run_shows_stop_and_traceback(tmp_path: Path, record: dict[str, Any]) -> None:
    with midstep.Run(name="a", save_dir=tmp_path / "runs") as run:
        run.controller.status.diagnosed(record)
        run.fail(ValueError("planted"))
    with RootServer(RootServerConfig(outputs=tmp_path, port=0)) as root:
        served = served_over(root, run)
        stop = asked(served)
        assert stop["diagnosis"]["cause"] == record["cause"]
        assert stop["diagnosis"]["layers"][1]["status"] == "first"
        assert stop["failure"]["error"] == "ValueError: planted"
        assert stop["failure"]["traceback"] == "ValueError: planted\n"
        state = served.ask("GET", f"{served.debug}/state").json()
        assert state["diagnosed_step"] == record["step"]
        assert asked(served, "viewer")["failure"]["traceback"] is None


@pytest.mark.parametrize(
    "change",
    [
        {"layers": "many"},
        {"layers": [{"name": 1}]},
        {"pictures": {"input": {"width": 10**9}}},
        {"changes": None},
        {"samples": list(range(10**4))},
        {"cause": "x" * 10**5},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_record_of_another_form_is_no_diagnosis(
    tmp_path: Path, record: dict[str, Any], change: dict[str, Any]
) -> None:
    with midstep.Run(name="a", save_dir=tmp_path / "runs") as run:
        pass
    with FactsWriter(run.dir, run_id=run.run_id, attempt=2) as facts:
        facts.event("on_intervention", kind="diagnosis", **{**record, **change})
    with RootServer(RootServerConfig(outputs=tmp_path, port=0)) as root:
        assert asked(served_over(root, run))["diagnosis"] is None


def test_a_run_that_parks_at_an_error_shows_batch_and_traceback(tmp_path: Path) -> None:
    loop = ImageLoop(bad=12)

    def train(run: Any) -> None:
        for _ in run.epochs(1):
            for x, y in loop.loader:
                loss = loop.loss_fn(loop.model(x), y)
                if not loss.isfinite():
                    raise FloatingPointError("loss is NaN")
                loss.backward()
                loop.optimizer.step()
                run.log(loss=loss)

    run = midstep.attach(*loop.parts, save_dir=tmp_path, serve=True, port=0, on_error="park")
    run.controller.add_breakpoint("loss_nonfinite")
    stop, batch = {}, {}

    def look() -> None:
        with stopped(run, train, kind=""):
            client = Client(run.url)
            stop.update(client.why())
            batch.update(client.batch())
            client.resume()

    with pytest.raises(FloatingPointError):
        look()
    assert stop["failure"]["error"] == "FloatingPointError: loss is NaN"
    assert 'raise FloatingPointError("loss is NaN")' in stop["failure"]["traceback"]
    assert stop["diagnosis"]["cause"] == "First non-finite: input of sample 12 → conv1 output"
    assert batch["sample_ids"] == list(range(8, 16))

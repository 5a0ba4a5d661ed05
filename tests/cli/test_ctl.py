"""`midstep ctl` against a live run: each button's twin."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import midstep
from midstep.cli.main import main

pytestmark = pytest.mark.usefixtures("effects_awaited")

Ask = Callable[..., Any]


@pytest.fixture
def save_dir(tmp_path: Path) -> Path:
    return tmp_path / "runs"


@pytest.fixture
def run(save_dir: Path) -> Iterator[midstep.Run]:
    """A served run that stands before its first step; its loop never ends by itself."""
    weights = torch.eye(8)
    with midstep.Run(name="loop", save_dir=save_dir) as made:
        made.controller.watches.add_source("weights", lambda: weights, default=True)
        made.controller.pause()
        loop = threading.Thread(target=_train, args=(made, weights), name="loop")
        with midstep.serve(made, port=0, save_dir=save_dir):
            loop.start()
            yield made
            made.controller.stop()
            loop.join()


def _train(run: midstep.Run, weights: torch.Tensor) -> None:
    control = run.controller
    going, step = control.boundary.enter(), 0
    while going:
        losses = torch.full((4,), 1.0 / (step + 1))
        control.capture_batch(
            torch.full((4, 1, 8, 8), step % 7 / 7),
            losses.mean(),
            step,
            labels=torch.arange(4),
            sample_ids=torch.arange(4) + 4 * step,
            losses=losses,
        )
        weights[0] += 0.1
        control.capture_step_data("features", {"norm": weights.norm(dim=1)})
        going, step = control.wait_if_paused(), step + 1


@pytest.fixture
def ask(run: midstep.Run, save_dir: Path, capsys: pytest.CaptureFixture[str]) -> Ask:
    """Run a command with --json; gives what it answered."""

    def asked(*arguments: str) -> Any:
        code = main(["ctl", *arguments, "--save-dir", str(save_dir), "--json"])
        told = capsys.readouterr()
        assert (code, told.err) == (0, "")
        return json.loads(told.out)

    return asked


def test_steps_are_made_one_by_one_and_counted(ask: Ask) -> None:
    assert ask("state")["step"] == 0
    assert [ask("step")["step"] for _ in range(3)] == [1, 2, 3]
    assert ask("step", "4")["step"] == 7


def test_run_until_parks_at_the_step(ask: Ask) -> None:
    ask("run-until", "50")
    state = ask("state")
    while not state["parked"]:
        state = ask("state")
    assert (state["step"], state["state"]) == (50, "paused")


def test_resume_pause_and_stop_take_effect_before_they_answer(ask: Ask) -> None:
    assert ask("resume")["state"] == "running"
    assert ask("pause")["parked"] is True
    assert ask("stop")["stopped"] is True


def test_command_log_names_the_terminal(ask: Ask) -> None:
    ask("step", "2")
    last = ask("log")[-1]
    assert (last["command"], last["payload"], last["who"], last["status"]) == (
        "step",
        {"n": 2},
        "cli",
        "done",
    )


def test_batch_has_its_picture(ask: Ask, tmp_path: Path) -> None:
    ask("step", "3")
    batch = ask("batch", "--save", str(tmp_path / "batch.png"))
    assert (batch["step"], batch["sample_ids"]) == (2, [8, 9, 10, 11])
    assert (tmp_path / "batch.png").read_bytes().startswith(b"\x89PNG")


def test_one_sample_is_shown_and_saved(ask: Ask, tmp_path: Path) -> None:
    ask("step", "3")
    sample = ask("batch", "--sample", "1", "--save", str(tmp_path / "one.png"))
    assert (sample["index"], sample["sample_id"], sample["shape"]) == (1, 9, [1, 8, 8])
    width = int.from_bytes((tmp_path / "one.png").read_bytes()[16:20], "big")
    assert width == 8


def test_forces_and_similarities_of_a_step(ask: Ask) -> None:
    ask("step")
    found = ask("forces")
    assert (found["tensor"], found["step"], found["neutral"]) == ("weights", 1, 8)
    assert found["features"]["grad_magnitude"][1:] == [0.0] * 7
    assert ask("forces", "0")["combined"] == pytest.approx([0.1] * 8)
    assert ask("cosine", "--order", "cluster")["permutation"] != []
    assert ask("cosine")["matrix"][1][2] == 0.0


def test_forces_are_told_in_words(
    ask: Ask, save_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ask("step")
    told = {}
    for command in ("forces --top 2", "forces 0", "cosine"):
        assert main(["ctl", *command.split(), "--save-dir", str(save_dir)]) == 0
        told[command] = capsys.readouterr().out.splitlines()
    assert told["forces --top 2"][0] == "weights at step 1: 0 agree, 0 oppose, 8 neutral"
    assert told["forces --top 2"][1].split() == TABLE
    assert len(told["forces --top 2"]) == 4
    assert told["forces 0"][1].split() == ["part", "length"]
    assert told["forces 0"][2].split() == ["combined", "0.28284"]
    assert told["cosine"][0].startswith("weights of weights at step 1: 8 rows, mean ")


TABLE = ["id", "verdict", "cos_grad_som", "grad_magnitude", "som_magnitude"]


def test_step_data_is_listed_and_shown(ask: Ask) -> None:
    ask("step")
    assert ask("step-data") == ["features"]
    assert len(ask("step-data", "features")["data"]["norm"]) == 8


def test_scalars_are_the_facts(ask: Ask) -> None:
    ask("step", "5")
    assert ask("scalars", "loss")["loss"]["step"] == [1, 2, 3, 4, 5]


def test_breakpoint_is_added_switched_and_removed(ask: Ask) -> None:
    made = ask("break", "add", "loss < 0.1 and step > 3")
    assert (made["enabled"], made["hits"]) == (True, 0)
    assert ask("break", "off", str(made["id"]))["enabled"] is False
    assert ask("break", "on", str(made["id"]))["enabled"] is True
    assert [each["id"] for each in ask("break", "ls")] == [made["id"]]
    ask("break", "rm", str(made["id"]))
    assert ask("break", "ls") == []


@pytest.mark.parametrize(
    ("options", "condition"),
    [
        (["--step", "9"], {"kind": "step", "step": 9}),
        (["--every", "5"], {"kind": "every", "n": 5}),
        (["--nonfinite"], {"kind": "loss_nonfinite"}),
        (["--loss-z", "3"], {"kind": "loss_z", "limit": 3.0, "window": 200}),
        (["--grad-norm", "10"], {"kind": "grad_norm", "limit": 10.0}),
        (["--sample", "3", "--sample", "4"], {"kind": "sample", "ids": [3, 4]}),
        (
            ["--metric", "train/loss > 2"],
            {"kind": "metric", "name": "train/loss", "op": ">", "value": 2.0},
        ),
        (
            ["--metric", "val acc (top 1)<=-1e-3"],
            {"kind": "metric", "name": "val acc (top 1)", "op": "<=", "value": -0.001},
        ),
    ],
)
def test_every_condition_has_an_option(
    ask: Ask, options: list[str], condition: dict[str, Any]
) -> None:
    assert ask("break", "add", *options)["condition"] == condition


def test_rules_are_listed_added_and_only_mark_if_so_asked(ask: Ask) -> None:
    names = [each["rule"] for each in ask("break", "rules")]
    assert "dead_relus" in names
    made = ask("break", "rule", "dead_relus", "--limit", "0.3", "--every", "5", "--mark")
    assert (made["action"], made["condition"]["limit"], made["condition"]["every"]) == (
        "mark",
        0.3,
        5,
    )
    assert ask("break", "add", "loss < 0.1", "--mark")["action"] == "mark"


def test_breakpoint_stops_the_run_with_its_evidence(ask: Ask) -> None:
    ask("break", "add", "loss < 0.11")
    ask("resume")
    state = ask("state")
    while not state["parked"]:
        state = ask("state")
    assert state["breakpoint"]["condition"] == "loss < 0.11"
    assert state["step"] == 10


def test_watched_rows_leave_trajectories(ask: Ask) -> None:
    assert ask("watch", "set", "0", "3")["feature_ids"] == [0, 3]
    ask("step", "3")
    assert ask("watch", "ls")["sources"] == ["weights"]
    found = ask("watch", "trajectories")["trajectories"]
    assert {row: len(points) >= 3 for row, points in found.items()} == {"0": True, "3": True}
    thinned = ask("watch", "trajectories", "--points", "2")["trajectories"]
    assert {row: len(points) for row, points in thinned.items()} == {"0": 2, "3": 2}
    ask("watch", "clear")


def test_a_command_that_has_ended_cannot_be_cancelled(ask: Ask, save_dir: Path, capsys) -> None:
    ended = ask("log")[-1]["id"]
    assert main(["ctl", "cancel", ended, "--save-dir", str(save_dir)]) == 2
    assert "nothing to cancel" in capsys.readouterr().err


def test_only_live_runs_are_listed_if_so_asked(
    run: midstep.Run, save_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with midstep.Run(name="ended", save_dir=save_dir) as ended:
        pass
    listed = {}
    for options in ((), ("--live",), ("--live", "--state", "finished")):
        assert main(["runs", "ls", *options, "--json", "--save-dir", str(save_dir)]) == 0
        rows = json.loads(capsys.readouterr().out)
        listed[options] = {row["id"] for row in rows}
    assert listed[()] == {run.run_id, ended.run_id}
    assert listed["--live",] == {run.run_id}
    assert listed["--live", "--state", "finished"] == set()


def test_words_for_people(ask: Ask, save_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ask("step", "3")
    ask("break", "add", "loss > 2")
    ask("watch", "set", "1")
    commands = ["state", "batch", "step-data", "step-data features", "scalars", "log"]
    told = {}
    for command in [*commands, "break ls", "watch ls", "watch trajectories", "break rm 1"]:
        assert main(["ctl", *command.split(), "--save-dir", str(save_dir)]) == 0
        told[command] = capsys.readouterr().out
    assert told["state"].startswith("PAUSED at step 3 · loss 0.33333")
    assert told["scalars"].splitlines() == ["name    value  step", "loss  0.33333     3"]
    assert told["batch"].startswith("batch 2: 4 samples [1, 8, 8], loss 0.333")
    assert told["break ls"] == "1  loss > 2  0 hits\n"
    assert told["break rm 1"] == "breakpoint 1 removed\n"
    assert told["watch ls"].startswith("watching weights: 1\n")
    assert all(told.values())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["break", "add", "loss >"], "'loss >' does not parse at its end"),
        (["break", "add", "__import__('os')"], "is not allowed here"),
        (["break", "add", "--every", "0"], "--every must be at least 1, got 0"),
        (["break", "add", "--grad-norm", "0"], "--grad-norm must be above 0, got 0"),
        (["break", "rule", "no_such"], "there is no rule no_such; there are vanishing_gradients"),
        (["break", "rm", "99"], "there is no breakpoint 99; `midstep ctl break ls` lists them"),
        (["break", "off", "99"], "there is no breakpoint 99; `midstep ctl break ls` lists them"),
        (["break", "add", "--metric", "train/loss"], "expected a name, one of"),
        (["break", "add", "--metric", "train/loss > much"], "expected a name, one of"),
        (["run-until", "0"], "Already past step 0"),
        (["step-data", "nothing"], "nothing called nothing was captured"),
        (["step-data", "nothing"], "`midstep ctl step-data` lists the keys"),
        (["watch", "set", "1", "--source", "elsewhere"], "elsewhere"),
        (["batch", "--save", "/dev/null/x.png"], ""),
    ],
)
def test_refusal_is_one_line_and_code_2(
    arguments: list[str],
    words: str,
    run: midstep.Run,
    save_dir: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["ctl", *arguments, "--save-dir", str(save_dir)]) == 2
    told = capsys.readouterr()
    assert told.err.startswith("midstep: ")
    assert told.err.count("\n") == 1
    assert words in told.err


def test_step_while_running_is_refused_with_the_reason(
    ask: Ask, save_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ask("resume")
    assert main(["ctl", "step", "--save-dir", str(save_dir)]) == 2
    assert capsys.readouterr().err == "midstep: The run is running; pause it first.\n"


def test_address_with_its_token_is_enough(
    run: midstep.Run, save_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    client = midstep.Client.find(save_dir)
    url = f"{client.url}/#token={client.transport.token}"
    assert main(["ctl", "step", "--url", url, "--save-dir", str(tmp_path / "other")]) == 0
    assert capsys.readouterr().out == "PAUSED at step 1 · loss 1\n"


@pytest.fixture
def second(run: midstep.Run, save_dir: Path) -> Iterator[midstep.Run]:
    """Another live run in the same place."""
    with (
        midstep.Run(name="other", save_dir=save_dir) as made,
        midstep.serve(made, port=0, save_dir=save_dir),
    ):
        yield made


def test_one_of_several_live_runs_is_chosen_by_id_name_directory_or_start(
    ask: Ask, run: midstep.Run, second: midstep.Run
) -> None:
    for wanted in (run.run_id, run.run_id[:8], "loop", "lo", run.dir.name):
        assert ask("state", "--run", wanted)["parked"] is True
    assert ask("step", "--run", "loop")["step"] == 1
    assert ask("state", "--run", "other")["step"] == 0


def test_a_run_of_a_named_server_is_chosen_too(
    ask: Ask, run: midstep.Run, save_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = midstep.Client.find(save_dir).url
    assert ask("state", "--url", url, "--run", "loop")["step"] == 0
    assert main(["ctl", "state", "--url", url, "--run", "nobody", "--save-dir", str(save_dir)]) == 2
    assert "no live run is called nobody" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "2 runs are live"),
        (["--run", "run_"], "run_ names 2 runs"),
        (["--run", "third"], "no live run is called third"),
    ],
)
def test_unclear_run_is_answered_with_the_runs_there_are(
    arguments: list[str],
    words: str,
    run: midstep.Run,
    second: midstep.Run,
    save_dir: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["ctl", "pause", *arguments, "--save-dir", str(save_dir)]) == 2
    first, *choices = capsys.readouterr().err.splitlines()
    assert first.startswith(f"midstep: {words}; choose one")
    assert "--run" in first
    assert "--url" in first
    for each in (run, second):
        (line,) = [choice for choice in choices if each.run_id in choice]
        assert each.name in line
        assert "step 0, http://127.0.0.1:" in line
        assert "token" not in line


def test_runs_ls_tells_a_paused_run_and_where_its_page_is(
    ask: Ask, run: midstep.Run, save_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ask("step", "2")
    assert main(["runs", "ls", "--save-dir", str(save_dir)]) == 0
    told = capsys.readouterr().out.splitlines()[1].split()
    url = midstep.Client.find(save_dir).url
    assert told[:4] == [run.run_id, "loop", "paused", "2"]
    assert told[-2:] == [run.dir.name, url]


def test_stale_token_is_one_line_and_code_2(
    run: midstep.Run, save_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = midstep.Client.find(save_dir).url
    assert main(["ctl", "state", "--url", url, "--token", "stale"]) == 2
    told = capsys.readouterr().err
    assert told.startswith("midstep: ")
    assert "token" in told
    assert told.count("\n") == 1


def test_the_link_of_the_page_is_printed_with_its_token(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with midstep.serve(midstep.DebugController(), port=0, save_dir=tmp_path) as page:
        assert main(["ctl", "link", "--save-dir", str(tmp_path)]) == 0
        assert capsys.readouterr().out.strip() == page.url

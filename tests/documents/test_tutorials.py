"""The tutorials work as they are written: their scripts and their commands, in their order.

`first-breakpoint.md`, `attach-your-loop.md`, `kill-and-resume.md` and `build-a-dataset.md`.
"""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from midstep.client import Client
from midstep.facts import FactsReader
from tests.documents.blocks import DOCS, ROOT, Block, blocks_of
from tests.warm import WarmProcess, run_warm

TUTORIALS = DOCS / "tutorials"
PATIENCE_S = 120.0


def python_blocks(page: str) -> list[str]:
    return [each.code for each in blocks_of(TUTORIALS / page) if each.language == "python"]


def command_blocks(page: str) -> list[list[list[str]]]:
    """The words of each command, block by block."""
    blocks = [each for each in blocks_of(TUTORIALS / page) if each.language == "bash"]
    return [[shlex.split(line) for line in block.code.splitlines()] for block in blocks]


def run(command: list[str], folder: Path) -> str:
    """Run a command of a tutorial to its end; returns what it printed."""
    program, *arguments = command
    done = run_warm(*arguments, cwd=folder, timeout=PATIENCE_S, program=program)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@contextmanager
def started(command: list[str], folder: Path) -> Iterator[WarmProcess]:
    program, *arguments = command
    process = WarmProcess(*arguments, cwd=folder, program=program)
    try:
        yield process
    finally:
        process.kill()
        process.wait(PATIENCE_S)
        process.stdout.close()
        process.stderr.close()


def wait_for(condition: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + PATIENCE_S
    while not (value := condition()):
        assert time.monotonic() < deadline, "nothing happened"
        time.sleep(0.2)
    return value


def client_of(process: WarmProcess) -> Client:
    """A client of the page whose address the process prints first."""
    address = re.search(r"http://\S+", process.stderr.readline())
    assert address is not None
    return Client(address[0])


def paused_at_breakpoint(client: Client) -> dict[str, Any]:
    return wait_for(lambda: (state := client.state())["breakpoint"] and state["parked"] and state)


def test_the_first_tutorial_works_as_it_is_written(tmp_path: Path) -> None:
    (script,) = python_blocks("first-breakpoint.md")
    assert script == (ROOT / "examples" / "shapes.py").read_text()
    (tmp_path / "train.py").write_text(script)
    [_plain], [under_midstep], in_second_terminal, [stop] = command_blocks("first-breakpoint.md")
    with started(under_midstep, tmp_path) as process:
        client = client_of(process)
        wait_for(lambda: client.state()["parked"])
        assert client.state()["step"] == 0
        client.resume()
        state = paused_at_breakpoint(client)
        assert state["step"] > 100
        assert state["loss"] > 2
        # The batch is there to be looked at, as the text says.
        assert client.batch()["shown"] == 32
        for command in in_second_terminal:
            run(command, tmp_path)
        assert (tmp_path / "batch.png").is_file()
        run(stop, tmp_path)
        assert process.wait(PATIENCE_S) == 0


def test_the_mended_script_learns_without_a_stop(tmp_path: Path) -> None:
    (script,) = python_blocks("first-breakpoint.md")
    mended = re.sub(r"    images\[::200\].*\n", "", script)
    (tmp_path / "train.py").write_text(mended)
    printed = run(["python", "train.py"], tmp_path)
    assert float(printed.splitlines()[-1].split()[-1]) < 0.3


def test_the_attach_tutorial_goes_back_before_the_jump(tmp_path: Path) -> None:
    (script,) = python_blocks("first-breakpoint.md")
    (loop,) = python_blocks("attach-your-loop.md")
    (tmp_path / "train.py").write_text(script.partition("for epoch in")[0] + loop)
    [start], first, [back], then = command_blocks("attach-your-loop.md")
    with started(start, tmp_path) as process:
        client = client_of(process)
        wait_for(lambda: client.state()["parked"])
        for command in first:
            run(command, tmp_path)
        jump = paused_at_breakpoint(client)
        assert "exact over" in run(back, tmp_path)
        assert client.state()["step"] == jump["step"] - 1
        for command in then:
            run(command, tmp_path)
        again = wait_for(lambda: (state := client.state())["parked"] and state)
        assert (again["step"], again["loss"]) == (jump["step"], jump["loss"])
        assert again["timeline"] == 1
        client.stop()
        assert process.wait(PATIENCE_S) == 0


def test_a_killed_training_ends_as_one_that_was_not_killed(tmp_path: Path) -> None:
    (script,) = python_blocks("kill-and-resume.md")
    assert "run.epochs(60)" in script
    # Long enough for a reader to kill it; a test needs less time for that.
    (tmp_path / "resume.py").write_text(script.replace("run.epochs(60)", "run.epochs(15)"))
    [whole], [killed], [kill, _list], [again] = command_blocks("kill-and-resume.md")
    last_line = run(whole, tmp_path).splitlines()[0]
    assert last_line.startswith("last loss")
    checkpoints = tmp_path / "outputs" / "runs" / "killed" / "checkpoints"
    with started(killed, tmp_path) as process:
        wait_for(lambda: checkpoints.is_dir() and any(checkpoints.glob("[1-9]*")))
        run(kill, tmp_path)
        assert process.wait(PATIENCE_S) == -9
    printed = run(again, tmp_path)
    assert last_line in printed
    assert re.search(r"midstep: continues at step [\d,]+, in epoch \d+", printed)
    events = FactsReader(checkpoints.parent).events()
    assert [event["exact"] for event in events if event.get("kind") == "repeated_steps"] in (
        [True],
        [None],  # nothing was recorded after the checkpoint
    )


def test_the_dataset_tutorial_trains_a_model(tmp_path: Path, monkeypatch, capsys) -> None:
    from midstep.cli.main import main

    monkeypatch.chdir(tmp_path)
    table, model = python_blocks("build-a-dataset.md")
    build, audit = command_blocks("build-a-dataset.md")[0]
    exec(compile(table, "table", "exec"), {"__name__": "__main__"})
    assert main(build[1:]) == 0
    assert main(audit[1:]) == 0
    assert "no leak between its splits" in capsys.readouterr().out
    exec(compile(model, "model", "exec"), {"__name__": "__main__"})
    before, after = capsys.readouterr().out.splitlines()
    assert before.startswith("before {'mrr'")
    assert after.startswith("after {'mrr'")


def test_a_tutorial_names_the_test_that_runs_its_blocks() -> None:
    for page in TUTORIALS.glob("*.md"):
        blocks: list[Block] = [each for each in blocks_of(page) if each.language == "python"]
        assert all(each.runs for each in blocks), page

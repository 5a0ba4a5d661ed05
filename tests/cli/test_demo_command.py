"""`midstep demo` as a user runs it: a process of its own, with and without a terminal."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from midstep.cli.demo import Recipe
from midstep.cli.main import main
from midstep.facts import FactsReader, end_state
from midstep.loops.bcl_config import CONDITIONS
from tests.warm import WarmProcess, run_warm

DEMO = [sys.executable, "-m", "midstep", "demo"]
LIMIT_S = 240.0


def demo(
    *arguments: str, cwd: Path, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return run_warm("demo", *arguments, cwd=cwd, env=env, timeout=LIMIT_S)


def only_run(cwd: Path) -> Path:
    (found,) = (cwd / "outputs" / "runs").iterdir()
    return found


class Started:
    """A demo in the background whose output is read line by line."""

    def __init__(self, process: subprocess.Popen[str] | WarmProcess) -> None:
        self.process = process
        self.lines: list[str] = []

    def read_until(self, start: str) -> str:
        """The next line that begins so; fails when the output ends before."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))
            if line.startswith(start):
                return self.lines[-1]
        pytest.fail(f"no line {start!r} in {self.lines}; stderr: {self._errors()}")

    def finish(self) -> int:
        """Read the rest; gives the exit code."""
        assert self.process.stdout is not None
        self.lines += [line.rstrip("\n") for line in self.process.stdout]
        return self.process.wait(LIMIT_S)

    def _errors(self) -> str:
        return self.process.stderr.read() if self.process.stderr else ""


@contextmanager
def started(*arguments: str, cwd: Path) -> Iterator[Started]:
    process = WarmProcess("demo", *arguments, cwd=cwd)
    try:
        yield Started(process)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()


def test_without_a_terminal_it_ends_with_0_and_leaves_facts(tmp_path: Path) -> None:
    answer = demo("--steps", "40", "--port", "0", cwd=tmp_path)
    assert (answer.returncode, answer.stderr) == (0, "")
    run = only_run(tmp_path)
    lines = answer.stdout.splitlines()
    assert lines[0] == f"run   {run.relative_to(tmp_path)}"
    assert re.fullmatch(r"page  http://127\.0\.0\.1:\d+/#token=[\w-]{43}", lines[1])
    assert re.match(r"finished after 40 steps in \d:\d\d:\d\d", lines[-4])
    assert lines[-1].startswith("again ")
    assert lines[-1].endswith(f" runs show {run.relative_to(tmp_path)}")
    assert end_state(run).state == "finished"
    assert len(FactsReader(run).series(["loss"])["loss"].step) == 40
    assert FactsReader(run).header()["config"]["steps"] == 40


def test_several_conditions_and_seeds_end_in_a_table(tmp_path: Path) -> None:
    chosen = ["--condition", "control", "--condition", "rescue", "--seed", "3", "--seed", "4"]
    answer = demo("--steps", "3", "--no-serve", *chosen, cwd=tmp_path)
    assert (answer.returncode, answer.stderr) == (0, "")
    table = [line.split() for line in answer.stdout.splitlines()[-7:]]
    assert table[0] == [
        *("condition", "seed", "steps", "L1", "PSNR", "cosine", "rank"),
        *("dead", "winners", "unreachable", "Gini"),
    ]
    assert [row[:2] for row in table[1:]] == [
        [condition, seed] for condition in ("control", "rescue") for seed in ("3", "4", "mean")
    ]
    l1 = [float(row[3]) for row in table[1:3]]
    assert float(table[3][2]) == pytest.approx(sum(l1) / 2, abs=1e-4)
    runs = sorted((tmp_path / "outputs" / "runs").iterdir())
    configs = [FactsReader(run).header()["config"] for run in runs]
    assert {(each["condition"], each["seed"]) for each in configs} == {
        (condition, seed) for condition in ("control", "rescue") for seed in (3, 4)
    }


def test_every_condition_of_the_recipe_can_be_chosen() -> None:
    assert [each.value for each in Recipe] == [*CONDITIONS, "all"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--full", "--steps", "5"], "give --full or --steps"),
        (["--condition", "all", "--run-name", "one"], "names one directory, but these are 5 runs"),
    ],
)
def test_settings_that_contradict_each_other_are_one_line(
    arguments: list[str],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["demo", "--no-serve", *arguments]) == 2
    told = capsys.readouterr().err
    assert words in told
    assert told.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("number", "paused"),
    [
        (signal.SIGTERM, True),
        (signal.SIGTERM, False),
        (signal.SIGINT, False),
        (signal.SIGHUP, True),
    ],
)
def test_signal_stops_at_the_boundary_and_exits_0(
    tmp_path: Path, number: signal.Signals, paused: bool
) -> None:
    how = ["--start-paused"] if paused else []
    with started("--steps", "1000000", "--no-serve", *how, cwd=tmp_path) as live:
        live.read_until("PAUSED at step 0" if paused else "run ")
        live.process.send_signal(number)
        assert live.finish() == 0
        assert any(line.startswith("stopped after ") for line in live.lines)
        assert not any(line.startswith("page ") for line in live.lines)
    run = only_run(tmp_path)
    assert end_state(run).state == "stopped"
    assert FactsReader(run).problems == []


def test_signal_while_torch_loads_is_obeyed(tmp_path: Path) -> None:
    code = """
import os, signal, sys
from midstep.cli import demo
prepare = demo._prepare
def prepared(*arguments):
    os.kill(os.getpid(), signal.SIGTERM)
    return prepare(*arguments)
demo._prepare = prepared
from midstep.cli.main import main
sys.exit(main(["demo", "--no-serve"]))
"""
    answer = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert (answer.returncode, answer.stderr) == (0, "")
    assert "stopped after 0 steps" in answer.stdout


def test_paused_demo_is_driven_from_a_second_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_dir = str(tmp_path / "outputs" / "runs")

    def ctl(*arguments: str) -> dict[str, object]:
        assert main(["ctl", *arguments, "--save-dir", save_dir, "--json"]) == 0
        return json.loads(capsys.readouterr().out)  # type: ignore[no-any-return]

    with started("--steps", "12", "--start-paused", "--port", "0", cwd=tmp_path) as live:
        live.read_until("PAUSED at step 0")
        batches = []
        for step in range(1, 6):
            ctl("step")
            live.read_until(f"PAUSED at step {step}")
            assert ctl("state")["step"] == step
            batches.append(tuple(ctl("batch")["sample_ids"]))  # type: ignore[arg-type]
        assert len(set(batches)) == 5
        assert ctl("step-data") == ["bcl_metrics", "bcl_tensors"]
        ctl("resume")
        assert live.finish() == 0
        assert live.lines[-4].startswith("finished after 12 steps")


def test_closed_pipe_does_not_end_the_training(tmp_path: Path) -> None:
    command = f"{' '.join(DEMO)} --steps 30 --no-serve | head -n 1; exit ${{PIPESTATUS[0]}}"
    answer = subprocess.run(
        ["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (answer.returncode, answer.stderr) == (0, "")
    assert end_state(only_run(tmp_path)).state == "finished"


def expect_one_line(answer: subprocess.CompletedProcess[str], words: str) -> None:
    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr.startswith("midstep: ")
    assert answer.stderr.count("\n") == 1
    assert words in answer.stderr


def test_taken_port_is_one_line_and_leaves_no_run(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        expect_one_line(demo("--port", str(port), cwd=tmp_path), f"port {port} is taken")
    assert not (tmp_path / "outputs").exists()


def test_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "outputs").write_text("a file in the way")
    expect_one_line(demo("--no-serve", cwd=tmp_path), "cannot write the run directory")


def test_read_only_folder_is_one_line(tmp_path: Path) -> None:
    folder = tmp_path / "closed"
    folder.mkdir()
    folder.chmod(0o555)
    answer = subprocess.run(
        [sys.executable, "-c", AS_NOBODY, "demo", "--no-serve", "--save-dir", "closed"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    expect_one_line(answer, "cannot write the run directory")
    assert "--save-dir" in answer.stderr


AS_NOBODY = """
import os, sys
from midstep.cli import demo
from midstep.cli.main import main
from midstep.session import Run

prepare = demo._prepare

def then_without_rights(*arguments):
    made = prepare(*arguments)
    if os.geteuid() == 0:  # root may write everywhere, so its rights go before the run is made
        os.setegid(65534)
        os.seteuid(65534)
    return made

demo._prepare = then_without_rights
sys.exit(main(sys.argv[1:]))
"""


def test_run_held_by_another_process_is_one_line(tmp_path: Path) -> None:
    with started("--run-name", "one", "--start-paused", "--no-serve", cwd=tmp_path) as live:
        live.read_until("PAUSED at step 0")
        second = demo("--run-name", "one", "--no-serve", cwd=tmp_path)
        expect_one_line(second, str(live.process.pid))


def test_run_name_of_an_existing_run_is_one_line_and_leaves_it_alone(tmp_path: Path) -> None:
    first = demo("--run-name", "one", "--no-serve", "--steps", "5", cwd=tmp_path)
    assert first.returncode == 0
    events = FactsReader(only_run(tmp_path)).events()
    second = demo("--run-name", "one", "--no-serve", cwd=tmp_path)
    expect_one_line(second, "already holds a run of 5 steps; choose another run_name")
    assert FactsReader(only_run(tmp_path)).events() == events


def test_state_folder_that_cannot_be_written_is_one_line_and_leaves_no_run(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    settings = {"env": {**os.environ, "XDG_STATE_HOME": str(tmp_path / "file")}}
    answer = demo("--port", "0", cwd=tmp_path, **settings)
    expect_one_line(answer, f"{tmp_path / 'file' / 'midstep'}: Not a directory")
    assert "XDG_STATE_HOME" in answer.stderr
    assert not (tmp_path / "outputs").exists()


def test_missing_digits_name_the_extra(tmp_path: Path) -> None:
    code = """
import importlib.util, sys
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == "mlxtend" else found(name, *rest)
from midstep.cli.main import main
sys.exit(main(["demo"]))
"""
    answer = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    expect_one_line(answer, "pip install 'midstep[demo]'")
    assert "from a checkout: pip install -e '.[demo]'" in answer.stderr
    assert not (tmp_path / "outputs").exists()


class Terminal:
    """A demo on a pseudo terminal: keys go in, what it draws comes out."""

    def __init__(self, cwd: Path, *arguments: str) -> None:
        self.child, self._end = pty.fork()
        if self.child == 0:
            os.chdir(cwd)
            os.environ["COLUMNS"], os.environ["TERM"] = "160", "xterm"
            os.execv(DEMO[0], [*DEMO, *arguments])
        self.seen = ""

    def press(self, key: str) -> None:
        os.write(self._end, key.encode())

    def wait_for(self, words: str) -> None:
        """Read until `words` have been drawn."""
        deadline = time.monotonic() + LIMIT_S
        while words not in self.seen:
            ready, _, _ = select.select([self._end], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"{words!r} was never drawn in {self.seen[-2000:]!r}"
            self.seen += os.read(self._end, 65536).decode(errors="replace")

    def close(self) -> int:
        """Read the rest; gives the exit code."""
        try:
            while data := os.read(self._end, 65536):
                self.seen += data.decode(errors="replace")
        except OSError:
            pass  # a terminal whose last user is gone answers EIO instead of an end
        os.close(self._end)
        return os.waitstatus_to_exitcode(os.waitpid(self.child, 0)[1])


def test_keys_pause_step_resume_and_quit(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path, "--steps", "60", "--start-paused", "--port", "0")
    terminal.wait_for("PAUSED at step 0")
    terminal.press("s")
    terminal.wait_for("PAUSED at step 1")
    terminal.press("s")
    terminal.wait_for("PAUSED at step 2")
    terminal.press(" ")
    terminal.wait_for("press q to leave")
    terminal.press("q")
    assert terminal.close() == 0
    assert "finished after 60 steps" in terminal.seen
    events = FactsReader(only_run(tmp_path)).events()
    asked = [(each["command"], each["who"]) for each in events if "command" in each]
    assert asked[:4] == [
        ("pause", "cli"),
        ("step", "terminal"),
        ("step", "terminal"),
        ("resume", "terminal"),
    ]


def test_end_names_the_program_as_it_can_be_called_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from midstep.cli.demo import _program

    program = tmp_path / "bin" / "midstep"
    program.parent.mkdir()
    program.touch(mode=0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["bin/midstep", "demo"])
    monkeypatch.setenv("PATH", "")
    assert _program() == "bin/midstep"
    monkeypatch.setenv("PATH", str(program.parent))
    assert _program() == "midstep"


def test_refused_key_says_why_and_q_stops_and_leaves(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path, "--steps", "1000000", "--port", "0")
    terminal.wait_for("running")
    terminal.press("s")
    terminal.wait_for("pause it first")
    terminal.press("q")
    assert terminal.close() == 0
    assert "stopped after" in terminal.seen
    assert "press q to leave" not in terminal.seen
    assert end_state(only_run(tmp_path)).state == "stopped"

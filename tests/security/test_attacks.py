"""Each attack that once worked, tried again: `docs/reliability.md` lists them with these tests."""

from __future__ import annotations

import json
import os
import shutil
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest

from midstep.cli.main import main
from midstep.core.errors import ControlError, MidstepError
from midstep.facts import FactsWriter, RunIndex, end_state, read_lease
from midstep.facts.deletion import delete_run
from midstep.facts.format.console_parts import START
from midstep.facts.format.event_lines import EventHeader, encode_fields, encode_line
from midstep.facts.liveness.run_lock import lock_holder
from midstep.server.forward import forward_requests
from midstep.server.recipes import launcher as launching
from midstep.server.recipes.end_process import end_process
from midstep.session import Run
from tests.facts.stored_runs import write_run
from tests.served import Served, serving_root
from tests.server.listed import listing

GIANT_BYTES = 6 << 30
HUGE = 10**400
ESCAPE = "\x1b]0;owned\x07\x1b[2J"
BIDI = "\u202egnp.exe\u2066"


def asked_together(served: Served, *questions: str):
    query = urlencode([("ask", each) for each in questions])
    return served.ask("GET", f"{served.debug}/together?{query}", token="viewer")


# -- requests -------------------------------------------------------------------------------------


@pytest.mark.timeout(120)
def test_forwarded_parts_of_a_batched_request_do_not_freeze_the_server(tmp_path, monkeypatch):
    real = forward_requests.forwarded_run

    def as_while_a_run_starts(scope):
        """The batched request comes before the run has its socket, and its parts after."""
        return None if scope["path"].endswith("/together") else real(scope)

    with serving_root(tmp_path) as served:
        monkeypatch.setattr(forward_requests, "forwarded_run", as_while_a_run_starts)
        answer = asked_together(served, *["state"] * 16)
        assert answer.status == 200
        heads = json.loads(answer.body.partition(b"\n")[0])
        assert [head["status"] for head in heads] == [200] * 16
        assert served.ask("GET", "/api/v1/health", token=None).status == 200


@pytest.mark.parametrize("name", ["together", "together%0A", "%74ogether%0a", "together%0D%0A"])
def test_a_batched_request_cannot_contain_itself(shared, name):
    inner = urlencode([("ask", "state")])
    assert asked_together(shared, f"{name}?{inner}").status == 422


def test_batched_answers_are_bounded_together(served, monkeypatch):
    monkeypatch.setattr("midstep.server.debug.batched_requests.MOST_BYTES", 5_000)
    answer = asked_together(served, *["state"] * 16)
    heads = json.loads(answer.body.partition(b"\n")[0])
    statuses = [head["status"] for head in heads]
    assert statuses[0] == 200
    assert statuses[-1] == 413
    assert len(answer.body) < 20_000


BODIES = {
    "commands": {"command": "run_until", "payload": {"step": HUGE}},
    "debug/run_until": {"step": HUGE},
    "debug/step": {"n": HUGE},
    "debug/breakpoints": {"condition": {"kind": "sample", "ids": [HUGE]}},
    "debug/watch": {"feature_ids": [-HUGE]},
}


@pytest.mark.parametrize("path", BODIES)
def test_numbers_of_400_digits_are_refused_by_name(shared, path):
    answer = shared.ask("POST", f"/api/v1/runs/{shared.run.run_id}/{path}", BODIES[path])
    assert answer.status in (405, 422), answer.body
    assert shared.controller.get_state()["run_until"] is None
    if answer.status == 422:
        assert answer.json()["field"]


def test_huge_numbers_in_process_are_refused_too(served):
    from midstep.control import Command

    for number in (HUGE, -HUGE, float("inf")):
        future = served.controller.submit(Command(name="run_until", payload={"step": number}))
        assert isinstance(future.exception(60), ControlError)


def test_idle_connections_of_a_stranger_do_not_lock_the_owner_out(served):
    crowd = [socket.create_connection(("127.0.0.1", served.port)) for _ in range(400)]
    try:
        assert served.ask("GET", "/debug/state").status == 200
        assert served.ask("POST", "/debug/step", {}).status == 200
    finally:
        for connection in crowd:
            connection.close()


def test_a_connection_with_a_token_is_not_closed_for_strangers(served):
    head = f"Host: 127.0.0.1:{served.port}\r\nAuthorization: Bearer {served.tokens.viewer}\r\n\r\n"
    request = f"GET /debug/state HTTP/1.1\r\n{head}".encode()
    with served.raw(request) as kept:
        assert kept.recv(15) == b"HTTP/1.1 200 OK"
        crowd = [socket.create_connection(("127.0.0.1", served.port)) for _ in range(200)]
        try:
            assert served.ask("GET", "/debug/state").status == 200  # the crowd was let in by now
            kept.recv(1 << 16)
            kept.sendall(request)
            assert kept.recv(15) == b"HTTP/1.1 200 OK"
        finally:
            for connection in crowd:
                connection.close()


def test_breakpoints_and_their_windows_are_bounded(served):
    wide = {"condition": {"kind": "loss_z", "window": 100_000}}
    statuses = [served.ask("POST", "/debug/breakpoints", wide).status for _ in range(11)]
    assert statuses == [201] * 10 + [422]
    narrow = {"condition": {"kind": "step", "step": 10**9}, "enabled": False}
    statuses = [served.ask("POST", "/debug/breakpoints", narrow).status for _ in range(191)]
    assert statuses == [201] * 190 + [422]


# -- run directories ------------------------------------------------------------------------------


@pytest.fixture
def stranger(tmp_path: Path) -> Iterator[Path]:
    """A run directory of somebody else, and beside it a file of ours that is none of theirs."""
    (tmp_path / "secret").write_text("a file of ours")
    write_run(tmp_path / "runs" / "theirs")
    write_run(tmp_path / "runs" / "ours")
    yield tmp_path / "runs" / "theirs"
    assert (tmp_path / "secret").read_text() == "a file of ours"


def replace_by_link(path: Path, target: Path) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to(target)


@pytest.mark.parametrize("link", [os.symlink, os.link], ids=["symbolic", "hard"])
def test_deleting_a_run_leaves_the_file_that_its_lock_leads_to(stranger, tmp_path, link):
    (stranger / "facts" / ".lock").unlink()
    link(tmp_path / "secret", stranger / "facts" / ".lock")
    delete_run(stranger)
    assert not stranger.exists()


HOLD = """
import sys
from midstep.facts import FactsWriter
with FactsWriter(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("link", [os.symlink, os.link], ids=["symbolic", "hard"])
def test_ending_a_run_hits_no_process_of_another_run(stranger, tmp_path, link):
    other = tmp_path / "runs" / "live"
    command = [sys.executable, "-c", HOLD, str(other)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        try:
            assert child.stdout.readline() == b"held\n"
            assert lock_holder(other) == child.pid
            (stranger / "facts" / ".lock").unlink()
            link(other / "facts" / ".lock", stranger / "facts" / ".lock")
            with pytest.raises(ControlError):
                end_process(stranger, "kill")
            assert child.poll() is None
        finally:
            child.stdin.close()
            assert child.wait(60) == 0  # not by the signal


def test_a_run_does_not_continue_through_a_link(stranger, tmp_path):
    for name in (".lock", "events.jsonl"):
        copy = tmp_path / f"copy-{name}"
        shutil.copytree(stranger, copy)
        replace_by_link(copy / "facts" / name, tmp_path / "secret")
        with pytest.raises(MidstepError), FactsWriter(copy, attempt=2):
            pass
    replace = tmp_path / "linked"
    replace.mkdir()
    (replace / "facts").symlink_to(stranger / "facts")
    before = sorted((stranger / "facts").iterdir())
    with pytest.raises(MidstepError), FactsWriter(replace):
        pass
    assert sorted((stranger / "facts").iterdir()) == before


def test_a_module_in_the_working_directory_is_not_executed_by_a_new_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # This module ends at once, without a run.
    monkeypatch.setattr(launching, "RECIPE_CHILD", "midstep.core.version")
    Path("midstep.py").write_text("open('executed', 'w').close()")
    request = launching.LaunchRequest(id="a", recipe="demo", settings={"steps": 1})
    launcher = launching.Launcher(tmp_path / "runs")
    with pytest.raises(MidstepError, match="ended before its run started"):
        launcher.start(request)
    launcher.close()
    assert not Path("executed").exists()


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", ["lease.json", "facts/.lock", "facts/events.jsonl", "labels.json"])
def test_a_pipe_in_place_of_a_file_blocks_nobody(stranger, name, capsys):
    (stranger / name).unlink(missing_ok=True)
    os.mkfifo(stranger / name)
    assert main(["runs", "ls", "--save-dir", str(stranger.parent)]) == 0
    assert "ours" in capsys.readouterr().out
    assert read_lease(stranger) is None
    assert end_state(stranger).state in ("finished", "stopped", "lost", "killed")
    assert main(["runs", "show", str(stranger)]) == 0
    assert main(["runs", "rm", str(stranger), "--yes"]) == 0
    assert not stranger.exists()


def test_escapes_and_direction_marks_do_not_reach_the_terminal(tmp_path, capsys):
    root = tmp_path / "runs"
    odd = f"run{ESCAPE}{BIDI}\nforged line"
    write_run(root / odd, name=odd, note=odd, **{odd: odd})
    (root / odd / f"foreign{ESCAPE}{BIDI}").write_text("x")
    where = ["--save-dir", str(root)]
    run = str(root / odd)
    commands = [
        ["runs", "ls", *where],
        ["runs", "ls", "--json", *where],
        ["runs", "show", run],
        ["runs", "show", run, "--json"],
        ["runs", "tail", run],
        ["runs", "tail", run, "--json"],
        ["runs", "export", run],
        ["runs", "rm", run, "--dry-run"],
        ["runs", "show", f"no such {odd}", *where],
        ["runs", "terminate", run],
        ["runs", "rm", run, "--yes"],
    ]
    for command in commands:
        main(command)
        shown = "".join(capsys.readouterr())
        assert shown.strip()
        wrong = [each for each in shown if not each.isprintable() and each != "\n"]
        assert wrong == [], command
        assert not any(line.startswith("forged") for line in shown.splitlines()), command


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", ["lease.json", "facts/events.jsonl", "facts/steps.0.1.bin"])
def test_a_giant_file_hides_no_other_run_and_takes_little_memory(stranger, name, most_memory):
    with most_memory(512 << 20):
        os.truncate(_touched(stranger / name), GIANT_BYTES)
        index = RunIndex(stranger.parent, "memory")
        index.refresh()
        states = {row.directory: row.state for row in index.rows().rows}
        assert states["ours"] == "finished"
        assert set(states) == {"ours", "theirs"}
        assert main(["runs", "tail", str(stranger), "--no-follow"]) == 0
        assert main(["runs", "show", str(stranger)]) == 0


def _touched(path: Path) -> Path:
    path.touch()
    return path


def test_a_giant_line_is_skipped_and_the_records_after_it_are_read(stranger):
    events = stranger / "facts" / "events.jsonl"
    lines = events.read_bytes()
    events.write_bytes(lines)
    os.truncate(events, GIANT_BYTES)
    with events.open("ab") as file:
        file.write(b"\n" + lines)
    index = RunIndex(stranger.parent, "memory")
    index.refresh()
    row = next(row for row in index.rows().rows if row.directory == "theirs")
    assert (row.state, row.epoch) == ("finished", 1)


@pytest.mark.parametrize("wall", [1e308, -1e308, 1e18])
def test_a_time_beyond_the_calendar_is_shown_without_a_traceback(tmp_path, capsys, wall):
    folder = tmp_path / "runs" / "late"
    write_run(folder, end=None)
    head = EventHeader(1, 0, wall, 1.0, "on_train_end", "0123456789ab", 0)
    with (folder / "facts" / "events.jsonl").open("ab") as file:
        file.write(encode_line(99, head, encode_fields({"status": "finished"})))
    (folder / "lease.json").write_text(json.dumps({"pid": 1, "started": wall, "host": "x"}))
    where = ["--save-dir", str(folder.parent)]
    assert main(["runs", "ls", *where]) == 0
    assert main(["runs", "show", str(folder)]) == 0
    assert main(["runs", "tail", str(folder), "--no-follow"]) == 0
    assert "late" in capsys.readouterr().out


def test_of_two_directories_with_one_id_none_is_deleted_unasked(tmp_path, capsys):
    root = tmp_path / "runs"
    run_id = write_run(root / "original")
    shutil.copytree(root / "original", root / "a copy")
    where = ["--save-dir", str(root)]
    for name in (run_id, run_id[:6]):
        assert main(["runs", "rm", name, "--yes", *where]) == 2
        assert "original" in capsys.readouterr().err
    assert {path.name for path in root.iterdir()} == {"original", "a copy"}
    assert main(["runs", "rm", "a copy", "--yes", *where]) == 0
    assert main(["runs", "rm", run_id, "--yes", *where]) == 0
    assert list(root.iterdir()) == []


def test_over_http_a_deletion_names_the_one_directory_that_is_meant(tmp_path):
    run_id = write_run(tmp_path / "a" / "run")
    shutil.copytree(tmp_path / "a" / "run", tmp_path / "b" / "run")
    with listing(tmp_path) as served:
        refused = served.ask("DELETE", f"/api/v1/runs/{run_id}", {"confirm": "run"})
        assert (refused.status, refused.json()["error"]) == (422, "unconfirmed")
        assert (tmp_path / "a" / "run").exists()
        done = served.ask("DELETE", f"/api/v1/runs/{run_id}", {"confirm": "a/run"})
        assert done.status == 200
    assert not (tmp_path / "a" / "run").exists()
    assert (tmp_path / "b" / "run").exists()


def test_other_users_cannot_look_into_a_run(tmp_path):
    before = os.umask(0)
    try:
        with Run(name="mine", save_dir=tmp_path / "runs") as run:
            run.log(loss=1.0)
            paths = [run.dir, *run.dir.rglob("*")]
            modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in paths}
    finally:
        os.umask(before)
    assert {name: mode for name, mode in modes.items() if mode & 0o077} == {}
    assert {"events.jsonl", "lease.json", ".lock"} <= set(modes)


def test_the_console_of_a_started_run_is_private(tmp_path, monkeypatch):
    monkeypatch.setattr(launching, "RECIPE_CHILD", "midstep.core.version")
    modes = []

    def look(run_dir: Path, _: object) -> MidstepError:
        modes.append(stat.S_IMODE((run_dir / START).stat().st_mode))
        return MidstepError("seen")

    monkeypatch.setattr(launching, "_start_error", look)
    before = os.umask(0)
    launcher = launching.Launcher(tmp_path / "runs")
    try:
        request = launching.LaunchRequest(id="a", recipe="demo", settings={"steps": 1})
        with pytest.raises(MidstepError, match="seen"):
            launcher.start(request)
    finally:
        os.umask(before)
        launcher.close()
    assert modes == [0o600]

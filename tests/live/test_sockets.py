"""Every run answers on a Unix socket of its own, and nothing of it stays behind."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from midstep.client import Client
from midstep.client.run_finder import read_token
from midstep.control import DebugController
from midstep.core.errors import StorageError
from midstep.facts import read_lease
from midstep.live import attach, serve
from midstep.live.run_socket import bind_socket, serve_on_socket, socket_folder
from midstep.server.auth.tokens import Tokens
from midstep.session import Run
from tests.live.trainer import Plain

NOBODY = 65534


@pytest.fixture(autouse=True)
def own_folder(tmp_path_factory, monkeypatch):
    """Sockets of this test alone."""
    folder = tmp_path_factory.mktemp("rt")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    return folder / "midstep"


def ask(path: str, token: str, target: str = "/debug/state") -> bytes:
    """One request over a Unix socket; the whole answer."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(30)
        connection.connect(path)
        head = f"GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        connection.sendall(f"{head}Authorization: Bearer {token}\r\n\r\n".encode())
        with connection.makefile("rb") as answer:
            return answer.read()


def knocking() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "midstep-knock"]


def test_an_attached_loop_is_reachable_until_its_block_ends(tmp_path, own_folder):
    plain = Plain()
    with attach(*plain.parts, save_dir=tmp_path) as run:
        path = Path(read_lease(run.dir)["socket"])
        assert path.parent == own_folder
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(own_folder.stat().st_mode) == 0o700
        answer = ask(str(path), Tokens.for_root(tmp_path).control)
        assert answer.startswith(b"HTTP/1.1 200")
    assert list(own_folder.iterdir()) == []
    assert knocking() == []


def test_the_lease_names_the_socket_and_no_token(tmp_path):
    with Run(name="a", save_dir=tmp_path) as run, serve_on_socket(run):
        ask(run.lease.socket, Tokens.for_root(tmp_path).control)
        text = (run.dir / "lease.json").read_text()
        tokens = Tokens.for_root(tmp_path)
        assert tokens.control not in text
        assert tokens.viewer not in text


def test_a_served_run_answers_on_both_and_on_neither_afterwards(tmp_path, own_folder):
    with serve(DebugController(), port=0, save_dir=tmp_path) as page:
        path = page.run.lease.socket
        assert ask(path, page.url.partition("#token=")[2]).startswith(b"HTTP/1.1 200")
        assert knocking() == []  # one server for both
    assert list(own_folder.iterdir()) == []
    assert page.run.lease.socket is None


def test_the_socket_wants_the_token(tmp_path):
    with Run(name="a", save_dir=tmp_path) as run, serve_on_socket(run):
        assert ask(run.lease.socket, "x" * 43).startswith(b"HTTP/1.1 401")


def test_the_first_connection_in_a_new_folder_finds_a_run_by_its_name(tmp_path):
    with (
        Run(name="foo", save_dir=tmp_path) as foo,
        serve_on_socket(foo),
        Run(name="bar", save_dir=tmp_path) as bar,
        serve_on_socket(bar),
    ):
        assert read_token(tmp_path) is None
        assert Client.find(tmp_path, run="bar").run == bar.run_id
        assert Client.find(tmp_path, run="foo").run == foo.run_id


def test_replaced_tokens_count_at_once(tmp_path):
    with Run(name="a", save_dir=tmp_path) as run, serve_on_socket(run):
        old = Tokens.for_root(tmp_path).control
        assert ask(run.lease.socket, old).startswith(b"HTTP/1.1 200")
        new = Tokens.for_root(tmp_path, new=True).control
        assert ask(run.lease.socket, old).startswith(b"HTTP/1.1 401")
        assert ask(run.lease.socket, new).startswith(b"HTTP/1.1 200")


def test_a_run_that_is_reachable_stays_so_with_the_socket_it_has(tmp_path):
    with Run(name="a", save_dir=tmp_path) as run, serve_on_socket(run):
        first = run.lease.socket
        with serve_on_socket(run), serve(run, port=0):
            assert run.lease.socket == first
        assert run.lease.socket == first
        assert Path(first).exists()


@pytest.mark.parametrize("mode", ["record", "off"])
def test_no_socket_where_the_mode_says_so(tmp_path, own_folder, monkeypatch, mode):
    monkeypatch.setenv("MIDSTEP_MODE", mode)
    with Run(name="a", save_dir=tmp_path) as run, serve_on_socket(run):
        assert run.lease.socket is None
    assert not own_folder.exists()


def test_nothing_of_a_web_server_is_loaded_before_somebody_knocks(tmp_path):
    code = (
        "import sys\n"
        "from midstep.session import Run\n"
        "from midstep.live.run_socket import serve_on_socket\n"
        f"with Run(name='a', save_dir={str(tmp_path)!r}) as run, serve_on_socket(run):\n"
        "    assert run.lease.socket\n"
        "    sys.exit(str({'fastapi', 'uvicorn', 'torch'} & set(sys.modules) or ''))\n"
    )
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert made.stderr.strip() == ""


def test_sockets_of_killed_runs_go_at_the_next_start(own_folder):
    path, dead = bind_socket("0" * 12)
    dead.close()  # as a kill does: nobody listens, and the file stays
    living, other = bind_socket("1" * 12)
    again, third = bind_socket("2" * 12)
    with other, third:
        assert not path.exists()
        assert sorted(own_folder.iterdir()) == sorted([living, again])


def test_looking_for_dead_sockets_knocks_at_no_living_one(tmp_path):
    with Run(name="a", save_dir=tmp_path) as run, serve_on_socket(run):
        bind_socket("1" * 12)[1].close()
        (waiting,) = knocking()
        assert waiting.is_alive()
        assert Path(run.lease.socket).exists()


def test_a_forked_child_leaves_the_socket_alone(tmp_path):
    with Run(name="a", save_dir=tmp_path) as run, serve_on_socket(run):
        child = os.fork()
        if child == 0:
            import atexit

            atexit._run_exitfuncs()
            os._exit(0)
        os.waitpid(child, 0)
        token = Tokens.for_root(tmp_path).control
        assert ask(run.lease.socket, token).startswith(b"HTTP/1.1 200")


def test_too_long_a_runtime_folder_is_passed_over(tmp_path, monkeypatch):
    long = tmp_path / ("x" * 100)
    long.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(long))
    monkeypatch.setenv("XDG_STATE_HOME", str(long))
    folder = socket_folder()
    assert not folder.is_relative_to(long)
    assert len(os.fsencode(folder)) < 60


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder away")
def test_a_folder_that_somebody_else_made_is_not_used(tmp_path, own_folder, monkeypatch):
    own_folder.mkdir()
    os.chown(own_folder, NOBODY, NOBODY)
    assert socket_folder() != own_folder
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / ("x" * 90)))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "none" / ("y" * 90)))
    with pytest.raises(StorageError, match="belongs to another user"):
        socket_folder()


def test_a_run_without_a_place_for_its_socket_trains_all_the_same(tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "none"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / ("x" * 90)))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / ("y" * 90)))
    with Run(name="a", save_dir=tmp_path / "runs") as run, serve_on_socket(run):
        assert run.lease.socket is None
        assert run.controller.wait_if_paused()
    assert "set XDG_RUNTIME_DIR" in caplog.text

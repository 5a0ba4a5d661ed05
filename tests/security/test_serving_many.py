"""Who may do what at a server over many runs: other users, links, read-only, names of the host."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from midstep.core.errors import ConfigError
from midstep.core.files.user_state import root_file
from midstep.live.run_socket import serve_on_socket
from midstep.server.root_server import RootServer, RootServerConfig, bind_uds
from midstep.session import Run
from tests.security.walk import is_subscription, paths_of
from tests.served import Served, serving_root
from tests.server.test_stream import viewing

NOBODY = 65534
WRITES = ("POST", "PUT", "PATCH", "DELETE")

STRANGER = """
import json, os, socket, sys
os.setgroups([]); os.setgid({user}); os.setuid({user})
found = {{}}
for name, path in json.loads(sys.argv[1]).items():
    try:
        if name.startswith("socket"):
            with socket.socket(socket.AF_UNIX) as made:
                made.settimeout(10)
                made.connect(path)
                made.sendall(b"GET /api/v1/health HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n")
                found[name] = "answered" if made.recv(100) else "closed"
        else:
            open(path, "rb").close()
            found[name] = "read"
    except (OSError, ConnectionError) as error:
        found[name] = type(error).__name__
print(json.dumps(found))
"""


def as_stranger(**paths: str) -> dict[str, str]:
    """What an unprivileged user of this host gets at these paths."""
    code = STRANGER.format(user=NOBODY)
    # An interpreter of our own may lie where others cannot go: the system's will do.
    program = "/usr/bin/python3" if Path("/usr/bin/python3").exists() else sys.executable
    told = subprocess.run(
        [program, "-c", code, json.dumps(paths)], capture_output=True, check=False, text=True
    )
    assert told.returncode == 0, told.stderr
    return json.loads(told.stdout)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_another_user_reaches_neither_sockets_nor_tokens(tmp_path):
    with serving_root(tmp_path) as served:
        token = root_file(tmp_path, "token")
        found = as_stranger(socket=served.run.lease.socket, token=str(token))
        assert found == {"socket": "PermissionError", "token": "PermissionError"}


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_another_user_is_hung_up_on_even_where_the_folder_lets_him_in(tmp_path):
    """The kernel says who connects: a mode that was changed opens nothing."""
    tmp_path.chmod(0o755)
    for folder in tmp_path.parents:
        if folder.stat().st_uid == os.getuid() and folder != Path("/"):
            folder.chmod(folder.stat().st_mode | 0o011)
    (tmp_path / "runs").mkdir()
    path = tmp_path / "s"
    with RootServer(RootServerConfig(outputs=tmp_path / "runs", uds=path)):
        path.chmod(0o777)
        # Depending on who is faster: before he writes, while, or before he reads.
        hung_up = ("closed", "ConnectionResetError", "BrokenPipeError")
        assert as_stranger(socket=str(path))["socket"] in hung_up
        with socket.socket(socket.AF_UNIX) as own:
            own.connect(str(path))
            own.sendall(b"GET /api/v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert own.recv(100).startswith(b"HTTP/1.1 200")


def test_read_only_refuses_every_write_but_subscriptions_whoever_asks(tmp_path):
    with serving_root(tmp_path, read_only=True) as served:
        for path in paths_of(served.app, served.run.run_id):
            for method in WRITES:
                for token in ("control", "viewer"):
                    answer = served.ask(method, path, {}, token=token)
                    subscribes = method == "PUT" and is_subscription(path)
                    allowed = (422,) if subscribes else (403, 405)
                    assert answer.status in allowed, (method, path, answer.status)
        with viewing(served) as events:
            path = f"{served.debug}/streams/{next(events)[1]['stream']}/subscriptions"
            body = {"version": 1, "subscriptions": [{"id": "a", "kind": "layers"}]}
            assert served.ask("PUT", path, body).status == 200
            assert served.controller.captures.subscriptions.active
        assert served.ask("GET", f"{served.debug}/state").json()["state"] == "paused"
        told = served.ask("GET", "/api/v1/recipes").json()
        assert told["can_start"] is False
        assert served.controller.queue.latest() == served.controller.queue.latest()[:1]


def test_a_read_only_server_prints_the_link_that_only_looks(tmp_path):
    with RootServer(RootServerConfig(outputs=tmp_path, port=0, read_only=True)) as root:
        assert root.url == root.viewer_url
        assert root.tokens.control not in root.url


def test_a_directory_behind_a_link_is_no_run(tmp_path):
    outside, outputs = tmp_path / "outside", tmp_path / "outputs"
    (outputs / "runs").mkdir(parents=True)
    with Run(name="secret", save_dir=outside) as run:
        (outputs / "runs" / "link").symlink_to(run.dir)
        (outputs / "whole").symlink_to(outside)
        with RootServer(RootServerConfig(outputs=outputs, port=0)) as root:
            served = _served(root, run)
            assert served.ask("GET", "/api/v1/runs").json()["runs"] == []
            unknown = served.ask("GET", "/api/v1/runs/zzzzzzzzzzzz/debug/state")
            asked = served.ask("GET", f"{served.debug}/state")
            assert (asked.status, asked.body) == (404, unknown.body)


def test_a_run_whose_directory_became_a_link_is_gone(tmp_path):
    with serving_root(tmp_path / "outputs") as served:
        moved = tmp_path / "elsewhere"
        served.run.dir.rename(moved)
        served.run.dir.symlink_to(moved)
        try:
            assert served.ask("GET", f"{served.debug}/state").status == 404
            assert served.ask("GET", f"/api/v1/runs/{served.run.run_id}/scalars").status == 404
        finally:
            served.run.dir.unlink()
            moved.rename(served.run.dir)


def _served(root: RootServer, run: Run) -> Served:
    port = int(root.base.rsplit(":", 1)[1])
    return Served(run, root.app.state.runs, root.tokens.now, root.app, root.base, port, root)


def test_a_wide_bind_needs_names_and_answers_only_under_them(tmp_path):
    with pytest.raises(ConfigError, match="--allow-host"):
        RootServerConfig(outputs=tmp_path, host="0.0.0.0", port=0)
    config = RootServerConfig(
        outputs=tmp_path, host="0.0.0.0", port=0, allowed_hosts=("node7:8765",)
    )
    with RootServer(config) as root:
        assert root.url.startswith("http://node7:8765/#token=")
        listening = root._listener.getsockname()[1]
        served = Served(None, None, root.tokens.now, root.app, "", listening, root)
        runs = "/api/v1/runs"
        assert served.ask("GET", runs, headers={"Host": "node7:8765"}).status == 200
        assert served.ask("GET", runs, headers={"Host": "node7"}).status == 403
        assert served.ask("GET", runs, headers={"Host": "node8:8765"}).status == 403
        assert served.ask("GET", runs, token=None, headers={"Host": "node7:8765"}).status == 401


def test_a_new_token_ends_old_links(tmp_path):
    with RootServer(RootServerConfig(outputs=tmp_path, port=0)) as root:
        old = root.tokens.control
        with RootServer(RootServerConfig(outputs=tmp_path, port=0, new_token=True)) as second:
            assert second.tokens.control != old
            assert root.tokens.control == second.tokens.control, "both serve the same folder"
            assert root.tokens.role(old) is None
    with RootServer(RootServerConfig(outputs=tmp_path, port=0)) as third:
        assert third.tokens.control == second.tokens.control


def unix_ask(path: Path, host: str, token: str) -> int:
    with socket.socket(socket.AF_UNIX) as made, made.makefile("rb") as answer:
        made.settimeout(30)
        made.connect(str(path))
        head = f"GET /api/v1/runs HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n"
        made.sendall(f"{head}Authorization: Bearer {token}\r\n\r\n".encode())
        return int(answer.readline().split()[1])


def test_a_unix_socket_answers_under_any_forwarded_port_of_this_machine(tmp_path):
    path = tmp_path / "s"
    with RootServer(RootServerConfig(outputs=tmp_path, uds=path)) as root:
        token = root.tokens.control
        for host in ("localhost", "127.0.0.1:9000", "localhost:8765", "[::1]:1234"):
            assert unix_ask(path, host, token) == 200, host
        for host in ("evil.test", "127.0.0.1.evil.test:80", "localhost:", "127.0.0.1:999999", ""):
            assert unix_ask(path, host, token) == 403, host
        assert unix_ask(path, "localhost", "x" * 43) == 401
        assert path.stat().st_mode & 0o777 == 0o600
    assert not path.exists()


def test_a_dead_socket_is_replaced_and_anything_else_is_left(tmp_path):
    path = tmp_path / "s"
    bind_uds(path).close()
    with bind_uds(path), pytest.raises(ConfigError, match="something else is there"):
        bind_uds(path)
    other = tmp_path / "file"
    other.write_text("mine")
    with pytest.raises(ConfigError, match="something else is there"):
        bind_uds(other)
    assert other.read_text() == "mine"
    with pytest.raises(ConfigError, match="too long"):
        bind_uds(tmp_path / ("x" * 120))


def test_what_cannot_be_served_is_one_line(tmp_path):
    with pytest.raises(ConfigError, match="is not a folder"):
        RootServerConfig(outputs=tmp_path / "none" / "deeper")
    with pytest.raises(ConfigError, match="leave --port and --host out"):
        RootServerConfig(outputs=tmp_path, uds=tmp_path / "s", port=8765)
    with pytest.raises(ConfigError, match="--data"):
        RootServerConfig(outputs=tmp_path, data=(tmp_path / "none",))


def test_no_token_is_in_any_log_line_of_a_forwarded_request(tmp_path, caplog):
    import logging

    caplog.set_level(logging.DEBUG)
    with serving_root(tmp_path) as served:
        served.ask("GET", f"{served.debug}/state")
        served.ask("GET", f"{served.debug}/nothing")
        served.ask("POST", f"{served.debug}/step", {"n": "x"})
        from midstep.server.auth.tokens import Tokens

        inner = Tokens.for_root(tmp_path / "runs")
        secrets = [served.tokens.control, served.tokens.viewer, inner.control, inner.viewer]
    told = "\n".join(record.getMessage() + str(record.exc_text) for record in caplog.records)
    assert not [secret for secret in secrets if secret in told]


def test_a_second_run_of_the_same_user_is_listed_beside_the_first(tmp_path):
    with (
        serving_root(tmp_path) as served,
        Run(name="b", save_dir=tmp_path / "runs") as other,
        serve_on_socket(other),
    ):
        wanted, waiting = {served.run.run_id, other.run_id}, threading.Event()
        for _ in range(600):  # a look at the disk is shared for a moment
            runs = served.ask("GET", "/api/v1/runs").json()["runs"]
            if {run["id"] for run in runs} == wanted:
                break
            waiting.wait(0.05)
        assert {run["id"] for run in runs} == wanted
        other_state = served.ask("GET", f"/api/v1/runs/{other.run_id}/debug/state")
        assert other_state.json()["state"] == "starting"

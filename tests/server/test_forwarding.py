"""Requests to a live run reach its own process, and nothing else goes along."""

from __future__ import annotations

import os
import socket
import threading
import time
from pathlib import Path

import pytest

from midstep.facts import read_lease
from midstep.live.run_socket import serve_on_socket
from midstep.server.auth.tokens import Tokens
from midstep.server.forward.forward_requests import forwarded_run
from midstep.server.forward.live_sockets import find_live_socket
from midstep.server.runs.live_run import LiveRunView
from midstep.session import Run
from tests.served import PATIENCE_S, serving_root
from tests.server.test_stream import viewing

OTHER = "z" * 12


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    """One run behind a server over its folder, for tests that leave it as they found it."""
    with serving_root(tmp_path_factory.mktemp("many")) as made:
        yield made


def test_verbs_take_effect_in_the_run(tmp_path):
    with serving_root(tmp_path) as served:
        stepped = served.ask("POST", f"{served.debug}/step", {"n": 2, "id": "two"})
        assert (stepped.status, stepped.json()["step"]) == (200, 2)
        assert served.controller.get_state()["step"] == 2
        command = served.ask("GET", f"/api/v1/runs/{served.run.run_id}/commands/two").json()
        assert (command["status"], command["who"]) == ("done", "python")


def test_the_short_addresses_mean_the_only_live_run(live):
    assert live.ask("GET", "/debug/state").json()["state"] == "paused"
    assert live.ask("GET", "/debug/batch").json()["error"] == "no_batch"


def asked_until(served, path, status):
    deadline = time.monotonic() + PATIENCE_S
    answer = served.ask("GET", path)
    while answer.status != status and time.monotonic() < deadline:
        time.sleep(0.05)
        answer = served.ask("GET", path)
    assert answer.status == status
    return answer


def test_two_live_runs_must_be_told_apart(tmp_path):
    with (
        serving_root(tmp_path) as served,
        Run(name="b", save_dir=tmp_path / "runs") as other,
        serve_on_socket(other),
    ):
        # A look at the disk is shared for a moment: the second run may not be seen at once.
        refused = asked_until(served, "/debug/state", 409)
        assert other.run_id in refused.json()["message"]


def test_answers_of_any_size_come_through_whole(tmp_path):
    import torch

    with serving_root(tmp_path) as served:
        values = torch.arange(600_000, dtype=torch.float32)
        served.controller.captures.add_step_data("large", values)
        answer = served.ask("GET", f"{served.debug}/step_data/large?format=safetensors")
        assert answer.status == 200
        assert answer.body.endswith(values.numpy().tobytes())
        assert answer.headers["content-length"] == str(len(answer.body))


def test_a_viewer_reads_and_is_a_viewer_to_the_run_as_well(live, monkeypatch):
    seen = []
    real = LiveRunView.state

    def state(self):
        seen.append(self._controller is live.controller)
        return real(self)

    monkeypatch.setattr(LiveRunView, "state", state)
    assert live.ask("GET", f"{live.debug}/state", token="viewer").status == 200
    assert seen == [True]
    assert live.ask("POST", f"{live.debug}/step", {}, token="viewer").status == 403
    with viewing(live, token="viewer") as events:
        assert next(events)[1]["can_control"] is False


def test_what_is_read_from_facts_does_not_disturb_the_run(live, monkeypatch):
    def refuse(_):
        raise AssertionError("the run was asked")

    monkeypatch.setattr("midstep.server.forward.unix_http.UnixHttpRequest.open", refuse)
    for rest in ("", "/scalars", "/events", "/files", "/lineage"):
        answer = live.ask("GET", f"/api/v1/runs/{live.run.run_id}{rest}")
        assert answer.status == 200, rest


def test_the_run_sees_its_own_token_and_nothing_of_the_browser(live, monkeypatch):
    seen = []
    from midstep.server.forward.unix_http import UnixHttpRequest

    real = UnixHttpRequest.send

    async def send(self, method, target, headers, body):
        seen.extend(headers)
        await real(self, method, target, headers, body)

    monkeypatch.setattr(UnixHttpRequest, "send", send)
    odd = {
        "Cookie": "a=b",
        "X-Forwarded-For": "10.0.0.1",
        "Origin": live.url,
        "X-Midstep-Who": "cli",
    }
    assert live.ask("GET", f"{live.debug}/state", headers=odd).status == 200
    own = Tokens.for_root(live.run.dir.parent).control
    assert sorted(name for name, _ in seen) == [b"authorization", b"host", b"x-midstep-who"]
    assert (b"authorization", f"Bearer {own}".encode()) in seen
    assert own != live.tokens.control


def test_replaced_tokens_leave_live_runs_reachable(tmp_path):
    with serving_root(tmp_path) as served:
        Tokens.for_root(tmp_path / "runs", new=True)
        assert served.ask("GET", f"{served.debug}/state").status == 200
        served.tokens = Tokens.for_root(tmp_path, new=True)
        assert served.ask("GET", f"{served.debug}/state").status == 200
        assert served.ask("GET", f"{served.debug}/state", token="x" * 43).status == 401


def test_a_run_that_ends_is_shown_from_its_facts_at_once(tmp_path):
    with serving_root(tmp_path) as served:
        assert served.ask("POST", f"{served.debug}/step", {"n": 3, "id": "mine"}).status == 200
        assert served.ask("POST", f"{served.debug}/stop", {}).status == 200
        served.run.finish()
        served.run.close()
        assert find_live_socket(served.run.dir) is None
        state = served.ask("GET", f"{served.debug}/state").json()
        assert (state["state"], state["step"]) == ("stopped", 3)
        again = served.ask("POST", f"{served.debug}/step", {"n": 3, "id": "mine"})
        assert again.status == 200, "a repeated id is answered, not refused"
        fresh = served.ask("POST", f"{served.debug}/step", {"n": 3, "id": "other"})
        assert (fresh.status, fresh.json()["error"]) == (409, "stopped")
        assert "has ended" in fresh.json()["message"]


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/runs/{}/debug/state",
        "/api/v1/runs/{}/commands",
        "/api/v1/runs/{}/commands/a/cancel",
    ],
)
def test_addresses_of_a_running_training_are_forwarded(path):
    assert forwarded_run({"path": path.format("0" * 12)}) == "0" * 12


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/runs/../debug/state",
        "/api/v1/runs/0000/debug/state",
        "/api/v1/runs/000000000000/debugger",
        "/api/v1/runs/000000000000",
        "/api/v1/runs",
        "/api/v1/health",
        "/",
    ],
)
def test_other_addresses_are_answered_here(path):
    assert forwarded_run({"path": path}) is None


def test_of_two_runs_in_a_query_none_is_forwarded_to():
    for query in (b"run=000000000000&run=111111111111", b"", b"run=", b"run=..%2f"):
        assert forwarded_run({"path": "/api/v1/stream", "query_string": query}) is None


def _put_socket(run: Run, path: Path) -> None:
    run.lease.reachable_at(socket=str(path))
    assert read_lease(run.dir)["socket"] == str(path)


def test_a_socket_is_trusted_only_where_nobody_else_can_put_one(tmp_path):
    open_folder, private = tmp_path / "open", tmp_path / "private"
    open_folder.mkdir(mode=0o755)
    private.mkdir(mode=0o700)
    with Run(name="a", save_dir=tmp_path / "runs") as run:
        assert find_live_socket(run.dir) is None  # no socket yet
        for folder, trusted in ((open_folder, False), (private, True)):
            with socket.socket(socket.AF_UNIX) as made:
                made.bind(str(folder / "s"))
                _put_socket(run, folder / "s")
                assert (find_live_socket(run.dir) is not None) is trusted
        (private / "link").symlink_to(private / "s")
        (private / "file").write_text("")
        for name in ("link", "file", "missing"):
            _put_socket(run, private / name)
            assert find_live_socket(run.dir) is None, name
        run.lease.reachable_at(socket="s")
        assert find_live_socket(run.dir) is None
    assert find_live_socket(run.dir) is None


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file away")
def test_a_socket_of_another_user_is_never_asked(tmp_path):
    private = tmp_path / "p"
    private.mkdir(mode=0o700)
    with Run(name="a", save_dir=tmp_path / "runs") as run, socket.socket(socket.AF_UNIX) as made:
        made.bind(str(private / "s"))
        _put_socket(run, private / "s")
        assert find_live_socket(run.dir) is not None
        os.chown(private / "s", 65534, 65534)
        assert find_live_socket(run.dir) is None


def test_a_viewer_that_leaves_is_gone_from_the_run_too(live):
    with viewing(live) as events:
        assert next(events)[1]["type"] == "hello"
        assert live.controller.captures.viewers == 1
    _settle(lambda: live.controller.captures.viewers == 0)


def test_a_stuck_viewer_is_cut_off_and_holds_little(tmp_path, monkeypatch, caplog):
    """The forwarder takes no more than its viewer does: the rest waits on the disk."""
    from midstep.server.forward import forward_requests
    from midstep.server.stream import sse_response

    monkeypatch.setattr(forward_requests, "STUCK_S", 0.5)
    monkeypatch.setattr(sse_response, "STUCK_S", 5.0)
    with serving_root(tmp_path, loop=None) as served:
        stuck = socket.socket()
        stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        stuck.connect(("127.0.0.1", served.port))
        stuck.sendall(
            f"GET /api/v1/stream?run={served.run.run_id} HTTP/1.1\r\n"
            f"Host: 127.0.0.1:{served.port}\r\n"
            f"Authorization: Bearer {served.tokens.control}\r\n\r\n".encode()
        )
        with stuck:
            _settle(lambda: served.controller.captures.viewers == 1)
            step = 0
            while served.controller.captures.viewers:
                for _ in range(200):
                    step += 1
                    served.run.facts.log(step, **{f"metric_{i}": float(step) for i in range(40)})
                threading.Event().wait(0.05)
        assert "disconnected" in caplog.text
        assert served.ask("GET", f"{served.debug}/state").status == 200


def _settle(test) -> None:
    """Wait for something that another thread is about to do."""
    waiting = threading.Event()
    for _ in range(3000):
        if test():
            return
        waiting.wait(0.01)
    raise AssertionError("it did not happen")

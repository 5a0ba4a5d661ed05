"""The stream of the run list: what changed, came and went."""

from __future__ import annotations

import asyncio
import shutil
import socket
import threading
from contextlib import contextmanager
from http.client import HTTPConnection

import pytest
from pydantic import TypeAdapter

from midstep.client.sse_reader import parse_events
from midstep.core import strict_json
from midstep.server.root_server import RootServer, RootServerConfig
from midstep.server.stream.run_list_stream import ListViewer, RunListStream
from midstep.server.stream.stream_routes import StreamMessage
from midstep.session import Run
from tests.served import PATIENCE_S, Served, serving_root

MESSAGE = TypeAdapter(StreamMessage)


@contextmanager
def listening(served, token="viewer"):
    """Messages of the list's stream, each checked against the wire format."""
    connection = HTTPConnection("127.0.0.1", served.port, timeout=PATIENCE_S)
    headers = {"Authorization": f"Bearer {served.secret(token)}"}
    try:
        connection.request("GET", "/api/v1/stream", headers=headers)
        answer = connection.getresponse()
        assert answer.status == 200
        yield (_checked(data) for _, data in parse_events(answer))
    finally:
        connection.sock.shutdown(socket.SHUT_RDWR)
        connection.close()


def _checked(data):
    message = strict_json.loads(data)
    MESSAGE.validate_python(message)
    return message


def until(messages, test):
    """The first list message that passes a test."""
    return next(m for m in messages if m["type"] == "runs" and test(m))


@pytest.fixture
def served(tmp_path):
    with serving_root(tmp_path) as made:
        yield made


def test_the_list_says_that_it_has_a_stream(served):
    assert served.ask("GET", "/api/v1/runs").json()["has_stream"] is True


def test_it_begins_with_the_live_runs_and_the_counts(served):
    with listening(served) as messages:
        first = next(messages)
        assert [run["id"] for run in first["runs"]] == [served.run.run_id]
        assert first["total"] == 1
        assert sum(first["states"].values()) == 1


def test_steps_ends_new_and_removed_runs_are_told(served, tmp_path):
    with listening(served) as messages:
        next(messages)
        assert served.ask("POST", f"{served.debug}/step", {"n": 2}).status == 200
        moved = until(messages, lambda m: any(run["step"] == 2 for run in m["runs"]))
        assert moved["runs"][0]["state"] in ("paused", "running", "stepping")
        with Run(name="second", save_dir=tmp_path / "runs") as other:
            until(messages, lambda m: other.run_id in [run["id"] for run in m["runs"]])
        ended = until(
            messages,
            lambda m: (
                (other.run_id, "finished") in [(run["id"], run["state"]) for run in m["runs"]]
            ),
        )
        assert ended["states"]["finished"] == 1
        shutil.rmtree(other.dir)
        assert until(messages, lambda m: m["removed"])["removed"] == [other.run_id]


def test_silence_is_broken_by_pings(tmp_path):
    with RootServer(RootServerConfig(outputs=tmp_path, port=0)) as root:
        port = int(root.base.rsplit(":", 1)[1])
        quiet = Served(None, None, root.tokens.now, root.app, root.base, port, root)
        with listening(quiet) as messages:
            assert next(messages)["total"] == 0
            assert next(messages)["type"] == "ping"


def test_nobody_looks_at_the_list_once_all_have_gone(served):
    stream = served.app.state.list_stream
    with listening(served) as messages:
        next(messages)
        assert stream.viewers == 1
    waiting = threading.Event()
    for _ in range(3000):
        if stream.viewers == 0 and stream._task.done():
            return
        waiting.wait(0.01)
    raise AssertionError("it still looks")


def test_closing_the_server_ends_the_stream(tmp_path):
    with serving_root(tmp_path) as served, listening(served) as messages:
        next(messages)
        served.thread.close()
        assert list(messages) is not None  # it ends


def test_a_slow_viewer_is_told_each_run_once_as_it_is_now():
    class Rows:
        def __init__(self, **row):
            self.id, self.state, self.live, self.updated_at = "a", "running", True, 0.0
            self.row = {"id": "a", **row}

        def as_wire(self):
            return self.row

    stream = RunListStream(None, asyncio.Event())
    viewer = ListViewer()
    for step in range(1000):
        stream._update({"a": Rows(step=step)})
        viewer.note(["a"], [])
    data = stream.message(viewer)
    assert data.count(b'"id":"a"') == 1
    assert b'"step":999' in data
    viewer.note([], ["a"])
    stream._update({})
    told = strict_json.loads(stream.message(viewer).partition(b"data: ")[2])
    assert (told["runs"], told["removed"], told["total"]) == ([], ["a"], 0)


def test_two_who_join_at_once_share_one_look():
    class Slow:
        rows, waits = (), True

        def list(self, query):
            if self.waits:
                together.wait(PATIENCE_S)
            return self

    together = threading.Barrier(2)

    async def join_both():
        slow = Slow()
        stream = RunListStream(slow, asyncio.Event())
        first, second = asyncio.create_task(stream.join()), asyncio.create_task(stream.join())
        viewers = {await first, await second}
        slow.waits = False
        looking = [each for each in asyncio.all_tasks() if each.get_coro().__name__ == "_run"]
        for viewer in viewers:
            stream.leave(viewer)
        await asyncio.gather(*looking)
        return len(viewers), len(looking)

    assert asyncio.run(join_both()) == (2, 1)


def test_a_server_of_one_run_streams_that_run(tmp_path):
    from tests.served import serving

    with serving(tmp_path) as alone, listening(alone) as messages:
        assert next(messages)["type"] == "hello"

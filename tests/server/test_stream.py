from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection
from typing import Any

import psutil
import pytest
from pydantic import TypeAdapter

from midstep.client.sse_reader import parse_events
from midstep.core import strict_json
from midstep.core.moments import Moment
from midstep.facts import FactsTail
from midstep.server.app import create_app
from midstep.server.stream import run_stream, sse_response
from midstep.server.stream.stream_routes import StreamMessage
from midstep.server.transport.server_thread import ServerThread
from tests.served import PATIENCE_S, Served, serving, serving_root

MESSAGE = TypeAdapter(StreamMessage)


@contextmanager
def viewing(
    served: Served, last_id: str | None = None, token: str = "control"
) -> Iterator[Iterator[tuple[str | None, dict[str, Any]]]]:
    """Messages of one connection; each is checked against the wire format."""
    connection = HTTPConnection("127.0.0.1", served.port, timeout=PATIENCE_S)
    headers = {"Authorization": f"Bearer {served.secret(token)}"}
    if last_id is not None:
        headers["Last-Event-ID"] = last_id
    try:
        connection.request("GET", f"/api/v1/stream?run={served.run.run_id}", headers=headers)
        answer = connection.getresponse()
        assert answer.status == 200
        assert answer.getheader("content-type").startswith("text/event-stream")
        yield _checked(parse_events(answer))
    finally:
        connection.sock.shutdown(socket.SHUT_RDWR)
        connection.close()


def _checked(events: Any) -> Iterator[tuple[str | None, dict[str, Any]]]:
    for identity, data in events:
        message = strict_json.loads(data)
        MESSAGE.validate_python(message)
        yield identity, message


def until(events: Any, kind: str, test: Any = lambda message: True) -> dict[str, Any]:
    """The first message of a kind that passes a test."""
    return next(m for _, m in events if m["type"] == kind and test(m))


def seqs_of(message: dict[str, Any]) -> list[int]:
    """Sequence numbers that a durable message carries."""
    if message["type"] == "event":
        return [message["seq"]]
    assert len(message["step"]) == message["last_seq"] - message["first_seq"] + 1
    return list(range(message["first_seq"], message["last_seq"] + 1))


def test_hello_comes_first_with_a_whole_snapshot(served):
    with viewing(served) as events:
        identity, hello = next(events)
        assert (hello["type"], hello["resumed"]) == ("hello", False)
        assert 0 < hello["seq"] <= served.run.facts.seq
        # A viewer that is cut off before any record continues after what the hello held.
        assert identity == f"{hello['timeline']}.{hello['seq']}"
        assert hello["state"]["state"] == "paused"
        assert hello["can_control"] is True
    with viewing(served, token="viewer") as events:
        assert next(events)[1]["can_control"] is False


def test_a_step_is_told_as_command_scalars_and_state(served):
    with viewing(served) as events:
        next(events)
        served.ask("POST", "/debug/step", {"id": "s1"})
        seen: dict[str, dict[str, Any]] = {}
        for _, message in events:
            seen[message["type"]] = message
            done = seen.get("command", {}).get("command", {}).get("status") == "done"
            if done and seen.get("state", {}).get("state", {}).get("step") == 1:
                break
        assert seen["scalars"]["columns"] == {"loss": [1.0]}
        assert seen["scalars"]["step"] == [1]
        assert seen["command"]["command"]["id"] == "s1"
        assert seen["state"]["state"]["batch_step"] == 0


def test_breakpoints_are_told_when_they_change(served):
    with viewing(served) as events:
        next(events)
        condition = {"kind": "every", "n": 3}
        served.ask("POST", "/debug/breakpoints", {"condition": condition})
        told = until(events, "breakpoints", lambda message: message["breakpoints"])
        assert told["breakpoints"][0]["condition"] == condition
        served.ask("POST", "/debug/run_until", {"step": 100})
        hit = until(events, "state", lambda message: message["state"]["breakpoint"])
        assert hit["state"]["breakpoint"]["step"] == 3


BOTH_WAYS = pytest.mark.parametrize("opened", [serving, serving_root], ids=["one run", "many runs"])
"""From the run's own server, and through one over its folder."""


@BOTH_WAYS
def test_a_broken_connection_resumes_with_no_gap_and_no_repeat(tmp_path, opened):
    """Against the real writer, at full speed, with rows of two layouts and events between."""
    rows = 1500
    with opened(tmp_path, loop=None) as served:
        facts = served.run.facts
        first = facts.seq + 1

        def write():
            for step in range(rows):
                facts.log(step, loss=float(step))
                if step % 7 == 0:
                    facts.log(step, loss=float(step), accuracy=0.5)
                if step % 11 == 0:
                    facts.event(Moment.INTERVENTION, kind="note", step=step)

        writer = threading.Thread(target=write)
        seen: list[int] = []
        last_id, connections = None, 0
        while not seen or writer.is_alive() or seen[-1] < facts.seq:
            with viewing(served, last_id) as events:
                connections += 1
                _, hello = next(events)
                assert hello["resumed"] is (last_id is not None)
                if connections == 1:
                    writer.start()
                for taken, (identity, message) in enumerate(events):
                    if identity is not None:
                        last_id = identity
                        seen.extend(seqs_of(message))
                        assert identity == f"0.{seen[-1]}"
                    if taken >= 5 + connections % 17 or (seen and seen[-1] == facts.seq):
                        break
        writer.join()
        assert connections >= 2
        assert seen == list(range(first, facts.seq + 1))


@BOTH_WAYS
def test_many_viewers_get_every_record_once(tmp_path, opened):
    with opened(tmp_path, loop=None) as served:
        facts, written = served.run.facts, threading.Event()
        first, found = facts.seq + 1, {}
        ready = threading.Barrier(9)

        def view(name: int) -> None:
            got: list[int] = []
            with viewing(served) as events:
                next(events)
                ready.wait(PATIENCE_S)
                for identity, message in events:
                    got.extend(seqs_of(message) if identity is not None else [])
                    # A slow disk adds a record of its own, so the last number is only known now.
                    if written.is_set() and got and got[-1] >= facts.seq:
                        break
            found[name] = got

        threads = [threading.Thread(target=view, args=(name,)) for name in range(8)]
        for thread in threads:
            thread.start()
        ready.wait(PATIENCE_S)
        for step in range(3000):
            facts.log(step, loss=1.0, other=2.0)
        written.set()
        for thread in threads:
            thread.join(PATIENCE_S)
        assert [len(got) >= 3000 for got in found.values()] == [True] * 8
        assert all(got == list(range(first, got[-1] + 1)) for got in found.values())


@pytest.mark.parametrize("last_id", ["0.999999999", "7.1", "x", "0.", ".3", "-1.2", "0.1e3", "²"])
def test_an_unknown_id_starts_afresh(served, last_id):
    with viewing(served, last_id.encode().decode("latin-1")) as events:
        _, hello = next(events)
        assert hello["resumed"] is False
        assert 0 < hello["seq"] <= served.run.facts.seq


@pytest.mark.usefixtures("no_slow_writes")
def test_an_id_too_far_back_starts_afresh(served, monkeypatch):
    monkeypatch.setattr(run_stream, "REPLAY_AT_MOST", 5)
    for step in range(20):
        served.run.facts.log(step, loss=1.0)
    with viewing(served, "0.1") as events:
        assert next(events)[1]["resumed"] is False
    with viewing(served, f"0.{served.run.facts.seq - 3}") as events:
        assert next(events)[1]["resumed"] is True
        assert seqs_of(next(m for i, m in events if i))[0] == served.run.facts.seq - 2


def test_replay_works_after_the_server_was_restarted(tmp_path):
    with serving(tmp_path, loop=None) as served:
        served.run.facts.log(1, loss=1.0)
        with viewing(served, "0.1") as events:
            last_id = [next(identity for identity, _ in events if identity) for _ in range(2)][1]
        served.thread.close()
        served.run.facts.log(2, loss=0.5)
        served.run.event(Moment.INTERVENTION, kind="note")
        app = create_app(served.runs, guard=served.app.state.guard)
        with ServerThread(app) as again:
            served.port = int(again.url.rsplit(":", 1)[1])
            with viewing(served, last_id) as events:
                assert next(events)[1]["resumed"] is True
                durable = [next(m for i, m in events if i) for _ in range(2)]
        assert [message["type"] for message in durable] == ["scalars", "event"]
        assert durable[0]["columns"] == {"loss": [0.5]}


def test_non_finite_scalars_and_absent_columns_travel(tmp_path):
    with serving(tmp_path, loop=None) as served:
        start = served.run.facts.seq
        served.run.facts.log(1, a=float("nan"))
        served.run.facts.log(2, a=1.0, b=float("inf"))
        with viewing(served, f"0.{start}") as events:
            message = until(events, "scalars")
        assert message["columns"] == {"a": ["NaN", 1.0], "b": [None, "Infinity"]}


def test_a_viewer_counts_as_watcher_while_it_is_there(served):
    assert served.controller.captures.viewers == 0
    with viewing(served) as events:
        next(events)
        assert served.controller.captures.viewers == 1
        assert served.app.state.run_streams.stream(served.runs.get(served.run.run_id)).viewers
    _settle(lambda: served.controller.captures.viewers == 0)


def test_nothing_is_polled_when_nobody_views(served):
    with viewing(served) as events:
        next(events)
    stream = served.app.state.run_streams.stream(served.runs.get(served.run.run_id))
    _settle(lambda: not stream.is_polling)
    assert stream.viewers == set()


def test_a_look_that_outlives_its_hub_leaves_no_file_open(served, monkeypatch):
    """The loop of a server that closes cancels the stream; its thread reads on for a moment."""
    reading, go_on = threading.Event(), threading.Event()
    poll = FactsTail.poll

    def slow(tail: FactsTail) -> Any:
        reading.set()
        go_on.wait(PATIENCE_S)
        return poll(tail)

    async def live_and_be_cancelled() -> None:
        stream = run_stream.RunStream(served.runs.get(served.run.run_id))
        stream.join(None)
        await asyncio.to_thread(reading.wait, PATIENCE_S)
        later = threading.Timer(0.1, go_on.set)
        later.start()
        assert stream._task is not None
        stream._task.cancel()
        with suppress(asyncio.CancelledError):
            await stream._task
        later.join()

    monkeypatch.setattr(FactsTail, "poll", slow)
    monkeypatch.setattr(run_stream, "open_writer", lambda _dir: None)  # as of another process
    asyncio.run(live_and_be_cancelled())
    assert reading.is_set()
    held = [file.path for file in psutil.Process().open_files() if file.mode == "r"]
    assert [path for path in held if str(served.run.dir) in path] == []


@pytest.mark.parametrize(
    ("light_bytes", "thread"), [(0, "midstep-stream_0"), (1 << 20, "midstep-server")]
)
def test_a_run_of_this_process_is_not_read_back_from_disk(served, monkeypatch, light_bytes, thread):
    """On the loop what is small, in a thread what is not."""
    monkeypatch.setattr("midstep.facts.read.live_tail.CHEAP_BYTES", light_bytes)
    monkeypatch.delattr(FactsTail, "poll")
    looked, look = set(), run_stream.RunStream._poll

    def noted(stream: run_stream.RunStream) -> Any:
        looked.add(threading.current_thread().name)
        return look(stream)

    monkeypatch.setattr(run_stream.RunStream, "_poll", noted)
    with viewing(served) as events:
        next(events)
        for step in range(3):
            served.run.facts.log(step, loss=step / 7)
        seen: list[float] = []
        while len(seen) < 3:
            seen += until(events, "scalars")["columns"]["loss"]
        assert seen == [0.0, 1 / 7, 2 / 7]
    assert looked == {thread}


def test_silence_is_broken_by_pings(served, monkeypatch):
    monkeypatch.setattr(run_stream, "PING_S", 0.01)
    with viewing(served) as events:
        for _ in range(3):
            until(events, "ping")


def test_a_stuck_viewer_is_cut_off_and_the_others_go_on(served, monkeypatch, caplog):
    monkeypatch.setattr(sse_response, "STUCK_S", 2.0)  # longer than this thread ever takes
    stream = served.app.state.run_streams.stream(served.runs.get(served.run.run_id))
    stuck = socket.socket()
    stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    stuck.connect(("127.0.0.1", served.port))
    stuck.sendall(
        f"GET /api/v1/stream HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\n"
        f"Authorization: Bearer {served.tokens.control}\r\n\r\n".encode()
    )
    with stuck, viewing(served) as events:
        next(events)
        _settle(lambda: len(stream.viewers) == 2)
        seen: list[int] = []
        step = 0
        while len(stream.viewers) == 2:
            for _ in range(500):
                step += 1
                served.run.facts.log(step, **{f"metric_{i}": float(step) for i in range(40)})
            while not seen or seen[-1] < served.run.facts.seq:
                identity, message = next(events)
                seen.extend(seqs_of(message) if identity is not None else [])
            assert max(queue.waiting_bytes for queue in stream.viewers) <= 1 << 20
        assert seen == list(range(seen[0], seen[-1] + 1))
    assert "disconnected" in caplog.text


def test_closing_the_server_ends_the_streams(served):
    with viewing(served) as events:
        next(events)
        closing = threading.Thread(target=served.thread.close)
        closing.start()
        assert list(events) is not None  # it ends
        closing.join(PATIENCE_S)
        assert not closing.is_alive()
    _settle(lambda: served.controller.captures.viewers == 0)


def test_an_error_of_ours_ends_the_stream_so_that_viewers_come_back(served, monkeypatch, caplog):
    stream = served.app.state.run_streams.stream(served.runs.get(served.run.run_id))

    def broken():
        raise KeyError("ours")

    with viewing(served) as events:
        next(events)
        monkeypatch.setattr(stream, "_poll", broken)
        assert list(events) is not None  # it ends
    monkeypatch.undo()
    assert "its viewers reconnect" in caplog.text
    with viewing(served) as events:
        assert next(events)[1]["type"] == "hello"
        served.ask("POST", "/debug/step", {})
        until(events, "scalars")


def test_the_stream_needs_a_known_run(served):
    assert served.ask("GET", "/api/v1/stream?run=zzzzzzzzzzzz").status == 404
    assert served.ask("GET", f"/api/v1/stream?run={'x' * 100}").status == 422


def _settle(test: Any) -> None:
    """Wait for something that another thread is about to do."""
    waiting = threading.Event()
    for _ in range(3000):
        if test():
            return
        waiting.wait(0.01)
    raise AssertionError("it did not happen")

"""Server dead and trainer alive, and the reverse; a stopped trainer; restarts without a gap."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from midstep.client import Client
from midstep.client.sse_reader import read_messages
from midstep.core.errors import ClientError
from midstep.facts import FactsReader, end_state
from midstep.server.root_server import RootServer, RootServerConfig
from tests.served import keep_port

LIFE = Path(__file__).with_name("served_life.py")
LIMIT_S = 180.0


@dataclass
class Life:
    """A training process."""

    process: subprocess.Popen[str]
    run_id: str
    run_dir: Path

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.process.pid, number)


@contextmanager
def training(outputs: Path, *, steps: int = 10**9, step_s: float = 0.01) -> Iterator[Life]:
    process = subprocess.Popen(
        [sys.executable, str(LIFE), str(outputs), str(steps), str(step_s)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        run_id, _, run_dir = process.stdout.readline().strip().partition(" ")
        yield Life(process, run_id, Path(run_dir))
    finally:
        process.kill()
        process.communicate()


@pytest.fixture(autouse=True)
def own_port(tmp_path: Path) -> None:
    """Restarts are asked to come back on the same port: one that no other program wants."""
    keep_port(tmp_path)


@contextmanager
def server_process(outputs: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`midstep serve` as a process, and the link it prints."""
    process = subprocess.Popen(
        [sys.executable, "-m", "midstep", "serve", str(outputs)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        lines = (line.split() for line in process.stdout)
        yield process, next(words[1] for words in lines if words[:1] == ["page"])
    finally:
        process.kill()
        process.communicate()


def eventually(test: Callable[[], Any]) -> Any:
    """What `test` gives once that is true."""
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        found = test()
        if found:
            return found
        threading.Event().wait(0.05)
    raise AssertionError("it did not happen")


class Follower:
    """Reads a run's stream in a thread, over every break; notes the numbers it was told."""

    def __init__(self, link: str, run_id: str) -> None:
        self.seen: list[int] = []
        self.hellos: list[dict[str, Any]] = []
        self.state = ""
        self._client = Client(link, run=run_id, timeout_s=15)
        self._leaving = threading.Event()
        self._thread = threading.Thread(target=self._read, name="follower")
        self._thread.start()

    def _read(self) -> None:
        last_id = None
        while not self._leaving.is_set():
            try:
                for message in self._connection(last_id):
                    last_id = message.get("_id", last_id)
                    self._take(message)
                    if self._leaving.is_set():
                        return
            except ClientError:
                self._leaving.wait(0.1)

    def _connection(self, last_id: str | None) -> Iterator[dict[str, Any]]:
        client = self._client
        return read_messages(client.transport, client.run, last_id=last_id, reconnect=False)

    def _take(self, message: dict[str, Any]) -> None:
        if message["type"] == "hello":
            self.hellos.append(message)
            if not self.seen:
                self.seen.append(message["seq"])
        elif message["type"] == "scalars":
            self.seen.extend(range(message["first_seq"], message["last_seq"] + 1))
        elif message["type"] == "event":
            self.seen.append(message["seq"])
        if "state" in message:
            self.state = message["state"]["state"]

    def close(self) -> None:
        self._leaving.set()
        self._thread.join(LIMIT_S)
        assert not self._thread.is_alive()

    def __enter__(self) -> Follower:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def contiguous(numbers: list[int]) -> bool:
    return numbers == list(range(numbers[0], numbers[-1] + 1))


def test_a_killed_server_leaves_the_trainer_alone_and_its_viewers_lose_nothing(tmp_path):
    """Same port, same token, and the stream goes on behind the last number."""
    with (
        training(tmp_path) as life,
        server_process(tmp_path) as (first, link),
        Follower(link, life.run_id) as follower,
    ):
        eventually(lambda: len(follower.seen) > 20)
        first.kill()
        first.wait()
        told = len(follower.seen)
        with server_process(tmp_path) as (_, again):
            assert again == link
            eventually(lambda: len(follower.seen) > told + 20)
            assert life.process.poll() is None
            assert follower.hellos[-1]["resumed"] is True
            assert contiguous(follower.seen)


def test_a_run_that_ends_while_no_server_is_there_is_told_to_its_end(tmp_path):
    with (
        training(tmp_path) as life,
        server_process(tmp_path) as (first, link),
        Follower(link, life.run_id) as follower,
    ):
        eventually(lambda: len(follower.seen) > 20)
        first.kill()
        first.wait()
        life.signal(signal.SIGTERM)
        life.process.wait()
        last = FactsReader(life.run_dir).last_seq
        with server_process(tmp_path):
            eventually(lambda: follower.seen[-1] == last)
            eventually(lambda: follower.state == "stopped")
        assert contiguous(follower.seen)


def test_a_killed_trainer_becomes_killed_and_its_stream_goes_on_from_facts(tmp_path):
    with (
        training(tmp_path) as life,
        RootServer(RootServerConfig(outputs=tmp_path, port=0)) as root,
    ):
        client = Client(root.url, run=life.run_id)
        with Follower(root.url, life.run_id) as follower:
            eventually(lambda: len(follower.seen) > 20)
            life.signal(signal.SIGKILL)
            life.process.wait()
            eventually(lambda: client.runs.list()[0]["state"] == "killed")
            eventually(lambda: follower.state == "killed")
            last = FactsReader(life.run_dir).last_seq
            eventually(lambda: follower.seen[-1] == last)
            assert contiguous(follower.seen)
        assert client.state()["state"] == "killed"
        with pytest.raises(ClientError, match="has ended \\(killed"):
            client.pause()
        assert client.scalars("loss")["loss"]["count"] > 0
    assert end_state(life.run_dir).state == "killed"


def test_a_stopped_trainer_does_not_respond_and_comes_back(tmp_path):
    with (
        training(tmp_path) as life,
        RootServer(RootServerConfig(outputs=tmp_path, port=0)) as root,
    ):
        client = Client(root.url, run=life.run_id)
        with Follower(root.url, life.run_id) as follower:
            eventually(lambda: len(follower.seen) > 20)
            life.signal(signal.SIGSTOP)
            eventually(lambda: follower.state == "not responding")
            with pytest.raises(ClientError, match="does not respond") as refused:
                client.pause()
            assert refused.value.status == 504
            assert client.state()["state"] == "not responding"
            assert client.scalars("loss")["loss"]["count"] > 0
            eventually(lambda: client.runs.list()[0]["state"] == "not responding")
            life.signal(signal.SIGCONT)
            eventually(lambda: follower.state == "running")
            told = len(follower.seen)
            eventually(lambda: len(follower.seen) > told + 20)
            assert contiguous(follower.seen)
            client.pause()
            eventually(lambda: client.state()["state"] == "paused")


def test_a_run_taken_up_again_goes_on_in_the_same_stream(tmp_path):
    """A second attempt numbers on: whoever looked at the stored run is moved to the live one."""
    from midstep.live.run_socket import serve_on_socket
    from midstep.session import Run

    with Run(name="a", save_dir=tmp_path / "runs", run_name="a") as run:
        run.log(loss=1.0)
        run.controller.wait_if_paused()
    with (
        RootServer(RootServerConfig(outputs=tmp_path, port=0)) as root,
        Follower(root.url, run.run_id) as follower,
    ):
        eventually(lambda: follower.state == "finished")
        with (
            Run(name="a", save_dir=tmp_path / "runs", run_name="a", existing="continue") as more,
            serve_on_socket(more),
        ):
            eventually(lambda: follower.state == "starting")
            more.log(loss=0.5)
            more.controller.wait_if_paused()
            last = more.facts.seq
            eventually(lambda: follower.seen[-1] >= last)
        eventually(lambda: follower.state == "finished")
        assert contiguous(follower.seen)


def test_sigterm_ends_the_server_with_zero_and_frees_its_port(tmp_path):
    (tmp_path / "runs").mkdir()
    with server_process(tmp_path) as (process, link):
        process.terminate()
        assert process.wait(LIMIT_S) == 0
    with server_process(tmp_path) as (_, again):
        assert again == link

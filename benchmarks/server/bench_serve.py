"""What a server over many runs adds to a run, an answer, a stream; and how soon it notices."""

from __future__ import annotations

import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import psutil

from benchmarks.figures import Figure, percentile
from benchmarks.session.bench_live import latency_of, told_by_viewers, viewers
from midstep.client import Client
from midstep.live.run_socket import serve_on_socket
from midstep.session import Run

__all__ = ["figures"]

STUCK = 20
LIFE = "tests/faults/served_life.py"


@contextmanager
def serve_process(outputs: Path) -> Iterator[tuple[int, str]]:
    """`midstep serve` in a process of its own; its id, and the link that controls."""
    child = subprocess.Popen(
        [sys.executable, "-m", "midstep", "serve", str(outputs), "--port", "0"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert child.stdout is not None
        words = (line.split() for line in child.stdout)
        yield child.pid, next(each[1] for each in words if each[:1] == ["page"])
    finally:
        child.kill()
        child.communicate()


@contextmanager
def served_run() -> Iterator[tuple[Run, int, str]]:
    """A run of this process behind such a server."""
    with tempfile.TemporaryDirectory() as folder:
        runs = Path(folder) / "runs"
        with (
            Run(name="bench", save_dir=runs) as run,
            serve_on_socket(run),
            serve_process(Path(folder)) as (pid, url),
        ):
            yield run, pid, url


def _socket_cost() -> Figure:
    """Binding the socket of a run and taking it away again."""
    times = []
    with tempfile.TemporaryDirectory() as folder, Run(name="a", save_dir=folder) as run:
        for _ in range(50):
            begun = time.perf_counter()
            with serve_on_socket(run):
                pass
            times.append(1e3 * (time.perf_counter() - begun))
    return Figure(
        name="a run's socket: bound and taken away",
        value=statistics.median(times),
        low=min(times),
        high=max(times),
        unit="ms",
    )


def _latency() -> Figure:
    """The state of a live run, asked through the server."""
    with served_run() as (run, _, url):
        client = Client(url, run=run.run_id)
        client.state()
        times = []
        for _ in range(200):
            begun = time.perf_counter()
            client.state()
            times.append(1e3 * (time.perf_counter() - begun))
    return Figure(
        name="state of a live run through the server, proof of the token included",
        value=statistics.median(times),
        low=min(times),
        high=percentile(times, 0.99),
        unit="ms",
        note="noise column: smallest – p99",
    )


def _fan_out(count: int = 50, seconds: float = 15.0) -> list[Figure]:
    """1,000 scalars a second to fifty viewers through the server."""
    with served_run() as (run, pid, url), viewers(url, count, seconds) as child:
        told = told_by_viewers(run, child, seconds)
        resident = psutil.Process(pid).memory_info().rss / 2**20
    each = f"fan-out through the server, {count} viewers, 1,000 scalars/s"
    return [
        latency_of(each, told),
        Figure(
            name=f"{each}: rows missing or doubled",
            value=told["gaps"],
            unit="rows",
            bar=0,
            note=f"{told['rows']} rows seen; the server held {resident:.0f} MiB",
        ),
    ]


def _stuck_viewers() -> list[Figure]:
    """Viewers that read nothing, while much is told: memory of the server, and when they go."""
    with served_run() as (run, pid, url):
        Client(url, run=run.run_id).state()
        process = psutil.Process(pid)
        before = process.memory_info().rss
        stuck = [_never_reads(url, run.run_id) for _ in range(STUCK)]
        begun, most, step = time.monotonic(), before, 0
        while run.controller.captures.viewers < STUCK and time.monotonic() - begun < 30:
            time.sleep(0.01)
        begun = time.monotonic()
        while run.controller.captures.viewers and time.monotonic() - begun < 60:
            for _ in range(100):
                step += 1
                run.facts.log(step, **{f"metric_{i}": float(step) for i in range(40)})
            most = max(most, process.memory_info().rss)
            time.sleep(0.01)
        took_s = time.monotonic() - begun
        for each in stuck:
            each.close()
    return [
        Figure(
            name=f"{STUCK} stuck viewers: memory of the server for each",
            value=(most - before) / 2**20 / STUCK,
            unit="MiB",
            bar=1.0,
        ),
        Figure(
            name=f"{STUCK} stuck viewers: all gone after",
            value=took_s,
            unit="s",
            note="10 s without a byte taken, once their buffers are full",
        ),
    ]


def _never_reads(url: str, run_id: str) -> socket.socket:
    parts = urlsplit(url)
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    made.connect((parts.hostname, parts.port))
    token = parts.fragment.removeprefix("token=")
    made.sendall(
        f"GET /api/v1/stream?run={run_id} HTTP/1.1\r\nHost: {parts.netloc}\r\n"
        f"Authorization: Bearer {token}\r\n\r\n".encode()
    )
    return made


def _noticed() -> list[Figure]:
    """How long until the list tells that a trainer was stopped, or killed."""
    with tempfile.TemporaryDirectory() as folder:
        life = subprocess.Popen(
            [sys.executable, LIFE, folder, "1000000000", "0.01"],
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert life.stdout is not None
            run_id = life.stdout.readline().split()[0]
            with serve_process(Path(folder)) as (_, url):
                client = Client(url, run=run_id)
                _seconds_until(lambda: client.state()["state"] == "running")
                os.kill(life.pid, signal.SIGSTOP)
                page = _seconds_until(lambda: client.state()["state"] == "not responding")
                listed = page + _seconds_until(lambda: _listed(client) == "not responding")
                os.kill(life.pid, signal.SIGCONT)
                _seconds_until(lambda: _listed(client) == "running")
                os.kill(life.pid, signal.SIGKILL)
                life.wait()
                killed = _seconds_until(lambda: _listed(client) == "killed")
        finally:
            life.kill()
            life.communicate()
    return [
        Figure(name="a stopped trainer: told on its page after", value=page, unit="s", bar=10),
        Figure(name="a stopped trainer: told in the list after", value=listed, unit="s", bar=10),
        Figure(name="a killed trainer: told in the list after", value=killed, unit="s", bar=2),
    ]


def _listed(client: Client) -> str:
    return str(client.runs.list()[0]["state"])


def _seconds_until(test: Callable[[], bool]) -> float:
    begun = time.monotonic()
    while not test():
        if time.monotonic() - begun > 60:
            return float("inf")
        time.sleep(0.05)
    return time.monotonic() - begun


def figures() -> list[Figure]:
    """All figures of this module."""
    return [_socket_cost(), _latency(), *_fan_out(), *_stuck_viewers(), *_noticed()]

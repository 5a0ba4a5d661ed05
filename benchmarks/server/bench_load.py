"""A training under load: commands, connections, matrices, watches; and its memory when polled."""

from __future__ import annotations

import gc
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPConnection
from urllib.parse import urlencode, urlsplit

import psutil
import torch

from benchmarks.figures import Figure, percentile
from midstep.live import serve
from midstep.session import Run

__all__ = ["figures"]

COMMANDS, CONNECTIONS, ROWS, ASKS = 10_000, 1_000, 2_048, 16
POLLED_STEPS = 1_000_000
POLL_EVERY = 2_000
MIB = 1 << 20


class Loaded:
    """A run with a loop of short steps on a thread, and its page."""

    def __init__(self, run: Run, url: str | None) -> None:
        self.run = run
        parts = urlsplit(url or "")
        assert parts.hostname is not None
        assert parts.port is not None
        self.host, self.port = parts.hostname, parts.port
        self.token = parts.fragment.removeprefix("token=")
        self.gaps_s: list[float] = []
        """Times between two steps."""

    def train(self) -> None:
        controller = self.run.controller
        going, last = controller.boundary.enter(), time.perf_counter()
        while going:
            time.sleep(0.001)
            self.run.log(loss=1.0)
            going = controller.wait_if_paused()
            now = time.perf_counter()
            self.gaps_s.append(now - last)
            last = now

    def get(self, path: str, connection: HTTPConnection | None = None) -> int:
        """Ask once; gives the number of bytes of the answer."""
        kept = connection or HTTPConnection(self.host, self.port, timeout=120)
        kept.request("GET", path, headers={"Authorization": f"Bearer {self.token}"})
        size = len(kept.getresponse().read())
        if connection is None:
            kept.close()
        return size


@contextmanager
def loaded() -> Iterator[Loaded]:
    """Such a run, until the block ends."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Run(name="bench", save_dir=folder) as run,
        serve(run, port=0) as page,
    ):
        target = Loaded(run, page.url)
        thread = threading.Thread(target=target.train)
        thread.start()
        try:
            time.sleep(0.5)
            yield target
        finally:
            run.controller.stop()
            thread.join()


def _measured(name: str, work: Callable[[Loaded], str], *, most_mib: float) -> list[Figure]:
    """What a load does to the steps of a training, and how much memory it takes."""
    with loaded() as target:
        target.get("/debug/state")
        gc.collect()
        before = psutil.Process().memory_info().rss
        target.gaps_s.clear()
        begun = time.perf_counter()
        note = work(target)
        took_s = time.perf_counter() - begun
        gaps = list(target.gaps_s)
        grown = (psutil.Process().memory_info().rss - before) / MIB
    return [
        Figure(
            name=f"{name}: steps a second meanwhile",
            value=len(gaps) / took_s,
            unit="steps/s",
            bar=1,
            at_least=True,
            note=f"{took_s:.1f} s; longest time between two steps {1e3 * max(gaps, default=0):.0f} "
            f"ms, p99 {1e3 * percentile(gaps or [0.0], 0.99):.1f} ms. {note}",
        ),
        Figure(name=f"{name}: memory taken", value=grown, unit="MiB", bar=most_mib),
    ]


def _commands(target: Loaded) -> str:
    """Ten thousand commands from eight clients."""
    path = f"/api/v1/runs/{target.run.run_id}/commands"

    def send(client: int) -> int:
        connection = HTTPConnection(target.host, target.port, timeout=120)
        headers = {"Authorization": f"Bearer {target.token}", "Content-Type": "application/json"}
        done = 0
        for number in range(COMMANDS // 8):
            body = f'{{"command": "resume", "id": "c{client}-{number}"}}'
            connection.request("POST", path, body, headers)
            answer = connection.getresponse()
            answer.read()
            done += answer.status in (200, 202)
        connection.close()
        return done

    with ThreadPoolExecutor(8) as pool:
        accepted = sum(pool.map(send, range(8)))
    return f"{accepted:,} of {COMMANDS:,} accepted"


def _connections(target: Loaded) -> str:
    """A thousand connections that say nothing; the owner asks in between."""
    crowd: list[socket.socket] = []
    answers = 0
    try:
        for number in range(CONNECTIONS):
            crowd.append(socket.create_connection((target.host, target.port), timeout=30))
            if number % 100 == 99:
                answers += bool(target.get("/debug/state"))
    finally:
        for each in crowd:
            each.close()
    return f"the owner got {answers} of {CONNECTIONS // 100} answers"


def _matrices(target: Loaded) -> str:
    """Sixteen matrices of 2,048² in one request, from four clients at once."""
    weight = torch.randn(ROWS, ROWS)
    target.run.controller.watches.add_source("w", lambda: weight)
    ask = "cosine_matrix?tensor=w&full=true&format=safetensors"
    path = f"/debug/together?{urlencode([('ask', ask)] * ASKS)}"
    with ThreadPoolExecutor(4) as pool:
        sizes = list(pool.map(target.get, [path] * 4))
    return f"largest answer {max(sizes) / MIB:.0f} MiB"


def _watches(target: Loaded) -> str:
    """All rows that may be watched, with their pairs."""
    weight = torch.randn(64, 256)
    target.run.controller.watches.add_source("watched", lambda: weight)
    target.run.controller.watches.replace(range(64), "watched")
    time.sleep(10)
    return "64 rows of 256 numbers and their 2,016 pairs, at every step"


def _polled_memory() -> Figure:
    """Memory of a training whose page polls: the second half of a million steps adds nothing."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Run(name="bench", save_dir=folder) as run,
        serve(run, port=0) as page,
    ):
        target = Loaded(run, page.url)
        connection = HTTPConnection(target.host, target.port, timeout=120)
        run.controller.boundary.enter()
        sizes: dict[int, int] = {}
        process = psutil.Process()
        paths = (f"/api/v1/runs/{run.run_id}/scalars", "/debug/together?ask=state&ask=rewind")
        for step in range(1, POLLED_STEPS + 1):
            run.log(loss=1.0 / step, lr=0.1, grad_norm=2.0, accuracy=0.5)
            run.controller.wait_if_paused()
            if step % POLL_EVERY == 0:
                for path in (*paths, f"/api/v1/runs/{run.run_id}/events?limit=100"):
                    target.get(path, connection)
            if step in (POLLED_STEPS // 10, POLLED_STEPS):
                gc.collect()
                sizes[step] = process.memory_info().rss
        connection.close()
    first, last = sizes.values()
    steps = POLLED_STEPS - POLLED_STEPS // 10
    return Figure(
        name="memory of a polled trainer, from step 100,000 to 1,000,000",
        value=(last - first) / steps,
        unit="bytes a step",
        bar=10,
        note=f"{(last - first) / MIB:.1f} MiB in {steps:,} steps with four scalars each; "
        "97 bytes a step before rows were bounded",
    )


def figures() -> Iterator[Figure]:
    """All of this part."""
    yield from _measured("10,000 commands", _commands, most_mib=200)
    yield from _measured("1,000 idle connections", _connections, most_mib=100)
    yield from _measured("16 matrices of 2,048² × 4 clients", _matrices, most_mib=1200)
    yield from _measured("64 watched rows", _watches, most_mib=400)
    yield _polled_memory()

"""A process of stream readers: `python -m benchmarks.server.viewers URL COUNT SECONDS`.

It says `connected` once all readers have their first message, and prints what it saw as one
line of JSON after the given seconds.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from urllib.parse import urlsplit

from benchmarks.figures import percentile


class Reader:
    """One viewer: counts frames, rows and gaps, and times each row."""

    def __init__(self) -> None:
        self.latencies_s: list[float] = []
        self.frames = self.rows = self.gaps = 0
        self._last_step: int | None = None

    async def follow(self, url: str, run: str, ready: asyncio.Semaphore) -> None:
        """Read the stream until cancelled."""
        parts = urlsplit(url)
        token = parts.fragment.removeprefix("token=")
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port, limit=1 << 22)
        writer.write(
            f"GET /api/v1/stream?run={run} HTTP/1.1\r\nHost: {parts.netloc}\r\n"
            f"Authorization: Bearer {token}\r\n\r\n".encode()
        )
        while not (await reader.readline()).startswith(b"data:"):
            pass
        ready.release()
        while line := await reader.readline():
            if line.startswith(b"data:"):
                self._take(json.loads(line[5:]))

    def _take(self, message: dict[str, object]) -> None:
        if message["type"] != "scalars":
            return
        now = time.monotonic()
        columns = message["columns"]
        steps = message["step"]
        assert isinstance(columns, dict)
        assert isinstance(steps, list)
        self.frames += 1
        for step, sent_at in zip(steps, columns.get("sent_at", []), strict=False):
            if self._last_step is not None and step != self._last_step + 1:
                self.gaps += 1
            self._last_step = step
            self.rows += 1
            self.latencies_s.append(now - sent_at)


async def main(url: str, count: int, seconds: float) -> None:
    """Read for `seconds`, then tell."""
    readers = [Reader() for _ in range(count)]
    ready = asyncio.Semaphore(0)
    run = await _only_run(url)
    tasks = [asyncio.create_task(reader.follow(url, run, ready)) for reader in readers]
    for _ in readers:
        await ready.acquire()
    print("connected", flush=True)
    await asyncio.sleep(seconds - 1)
    for task in tasks:
        task.cancel()
    latencies = [value for reader in readers for value in reader.latencies_s] or [float("inf")]
    told = {
        "p50_ms": percentile(latencies, 0.5) * 1e3,
        "p99_ms": percentile(latencies, 0.99) * 1e3,
        "max_ms": max(latencies) * 1e3,
        "frames_per_s": max(reader.frames for reader in readers) / (seconds - 1),
        "rows": sum(reader.rows for reader in readers),
        "gaps": sum(reader.gaps for reader in readers),
    }
    print(json.dumps(told), flush=True)


async def _only_run(url: str) -> str:
    parts = urlsplit(url)
    token = parts.fragment.removeprefix("token=")
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    writer.write(
        f"GET /api/v1/runs HTTP/1.1\r\nHost: {parts.netloc}\r\nConnection: close\r\n"
        f"Authorization: Bearer {token}\r\n\r\n".encode()
    )
    answer = (await reader.read()).split(b"\r\n\r\n", 1)[1]
    writer.close()
    return str(json.loads(answer)["runs"][0]["id"])


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3])))

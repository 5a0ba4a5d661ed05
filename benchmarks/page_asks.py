"""Asks as an open page does: `python -m benchmarks.page_asks URL TAB KEY`.

Its input tells it `on` and `off`, and it answers with the same word, `on` once the first message
of the stream is there. While it is on, the stream is read, and what the tab shows is asked for over
one connection that is kept, each at the pace of the page while a run goes on.
"""

from __future__ import annotations

import http.client
import json
import socket
import sys
import threading
import time
from urllib.parse import SplitResult, urlsplit

TURN_S = 0.25
ASKED_EVERY = {
    "step": {"batch": 4, "step_data/{key}": 4, "rewind": 8},
    "features": {"forces": 4, "cosine_matrix?source=weights": 4, "trajectories": 4, "rewind": 8},
}
"""For each tab what it asks for, and in which turns."""


class Page:
    """One open page."""

    def __init__(self, url: str, tab: str, key: str) -> None:
        self._place: SplitResult = urlsplit(url)
        self._headers = {"Authorization": f"Bearer {self._place.fragment.removeprefix('token=')}"}
        self._kept = http.client.HTTPConnection(str(self._place.hostname), self._place.port)
        runs = json.loads(self.ask("/api/v1/runs"))["runs"]
        self._run = str(runs[0]["id"])
        debug = f"/api/v1/runs/{self._run}/debug/"
        asked = ASKED_EVERY[tab].items()
        self._asked = {debug + path.format(key=key): turns for path, turns in asked}
        self._stream: socket.socket | None = None
        self.looking = threading.Event()

    def ask(self, path: str) -> bytes:
        """The body of an answer."""
        self._kept.request("GET", path, headers=self._headers)
        return self._kept.getresponse().read()

    def open(self) -> None:
        """Follow the stream; its first message is there when this returns."""
        place = (str(self._place.hostname), int(self._place.port or 80))
        stream = self._stream = socket.create_connection(place)
        lines = [f"GET /api/v1/stream?run={self._run} HTTP/1.1", f"Host: {self._place.netloc}"]
        lines += [f"{name}: {value}" for name, value in self._headers.items()]
        stream.sendall("\r\n".join([*lines, "", ""]).encode())
        while b"data:" not in stream.recv(1 << 20):
            pass
        threading.Thread(target=_drain, args=(stream,), daemon=True).start()
        self.looking.set()

    def close(self) -> None:
        """Look away."""
        self.looking.clear()
        if self._stream is not None:
            self._stream.shutdown(socket.SHUT_RDWR)
            self._stream = None

    def keep_asking(self) -> None:
        """While it is open, for ever."""
        turn = 0
        while self.looking.wait():
            begun = time.monotonic()
            for path, turns in self._asked.items():
                if turn % turns == 0:
                    self.ask(path)
            turn += 1
            time.sleep(max(0.0, TURN_S - (time.monotonic() - begun)))


def _drain(stream: socket.socket) -> None:
    while stream.recv(1 << 20):
        pass


def main(url: str, tab: str, key: str) -> None:
    """Obey the words on the input until it ends."""
    page = Page(url, tab, key)
    threading.Thread(target=page.keep_asking, daemon=True).start()
    print("ready", flush=True)
    for line in sys.stdin:
        word = line.strip()
        page.open() if word == "on" else page.close()
        print(word, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:4])

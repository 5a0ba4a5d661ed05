"""Asks as an open page does: `python -m benchmarks.page.page_requests URL TAB CONDITION`.

Its input tells it `on` and `off`, and it answers with the same word, `on` once the first message
of the stream is there and what the tab shows is subscribed. While it is on, the stream is read, and
what the tab shows is asked for as the page does while a run goes on: on one beat, all that is due
in one request. The beat begins at a moment of chance, as of a page that has been open for a while.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import socket
import sys
import threading
import time
import traceback
from urllib.parse import SplitResult, urlencode, urlsplit

TURN_S = 0.05
"""How often it is looked whether the page was closed."""
TABLE = {"novelty": "bcl_metrics", "control": "features", "layers": "layers"}
"""The step data that the Step tab shows; `layers` is that of any model under `attach`."""
PANELS = {"novelty": ("bcl_metrics", "bcl_tensors"), "control": ("features",)}
"""The step data that the Panels tab shows."""
SECOND_MATRIX = {"novelty": "som_targets", "control": "grad_delta"}
_COSINES = "debug/cosine_matrix?source={}&tensor=encoder.weight&order=id&format=safetensors"


SAMPLES = 64
"""Samples of a batch that a page shows until it is scrolled."""


def asked_every_s(tab: str, condition: str) -> dict[str, float]:
    """What a tab asks for of a run of the demo, and how often. A browser test compares it.

    Args:
        tab: step, charts, features or panels.
        condition: of the demo; `layers` for any other model.
    """
    if tab == "step":
        samples = f"first=0&count={SAMPLES}"
        batch = [f"debug/batch?{samples}", f"debug/batch/picture?{samples}"]
        shown = [*batch, f"debug/step_data/{TABLE[condition]}"]
    elif tab == "charts":
        shown = []  # the stream brings the scalars
    elif tab == "panels":
        shown = [f"debug/step_data/{key}" for key in PANELS[condition]]
    else:
        cosines = (_COSINES.format(each) for each in ("weights", SECOND_MATRIX[condition]))
        shown = ["debug/forces", "debug/trajectories?points=2000&format=safetensors", *cosines]
    return {**dict.fromkeys(shown, 1.0), "debug/rewind": 2.0}


def subscriptions(tab: str, condition: str) -> list[dict[str, object]]:
    """What a tab subscribes to."""
    if tab == "step":
        key = TABLE[condition]
        return [
            {"id": f"batch/0/{SAMPLES}", "kind": "batch", "first": 0, "count": SAMPLES},
            {"id": f"step_data/{key}", "kind": "step_data", "key": key},
        ]
    if tab == "charts":
        return []
    if tab == "panels":
        keys = PANELS[condition]
        return [{"id": f"step_data/{key}", "kind": "step_data", "key": key} for key in keys]
    tensor = "encoder.weight"
    matrices: list[dict[str, object]] = [
        {"id": f"{kind}/{tensor}", "kind": kind, "key": tensor}
        for kind in ("weights", "cosine_matrix")
    ]
    return [{"id": "forces", "kind": "forces"}, *matrices]


class Page:
    """One open page."""

    def __init__(self, url: str, tab: str, condition: str) -> None:
        self._place: SplitResult = urlsplit(url)
        self._headers = {"Authorization": f"Bearer {self._place.fragment.removeprefix('token=')}"}
        place = (str(self._place.hostname), self._place.port)
        self._kept = http.client.HTTPConnection(*place)
        runs = json.loads(self.ask("/api/v1/runs"))["runs"]
        self._run = str(runs[0]["id"])
        self._asked = asked_every_s(tab, condition)
        self._subscriptions = subscriptions(tab, condition)
        self.captures = 0
        """Capture messages so far."""
        self._stream: socket.socket | None = None
        self.looking = threading.Event()

    def ask(self, path: str) -> bytes:
        """The body of the answer to a request."""
        self._kept.request("GET", path, headers=self._headers)
        return self._kept.getresponse().read()

    def address(self, paths: list[str]) -> str:
        """Where to ask for all of these at once."""
        looks = [path.removeprefix("debug/") for path in paths]
        debug = f"/api/v1/runs/{self._run}/debug"
        if len(looks) == 1:
            return f"{debug}/{looks[0]}"
        return f"{debug}/together?{urlencode([('ask', each) for each in looks])}"

    def open(self) -> None:
        """Follow the stream; its first message is there when this returns."""
        place = (str(self._place.hostname), int(self._place.port or 80))
        stream = self._stream = socket.create_connection(place)
        lines = [f"GET /api/v1/stream?run={self._run} HTTP/1.1", f"Host: {self._place.netloc}"]
        lines += [f"{name}: {value}" for name, value in self._headers.items()]
        stream.sendall("\r\n".join([*lines, "", ""]).encode())
        received = told = b""
        while b"\n\n" not in told:
            received += stream.recv(1 << 20)
            # After the headers, which have the word too, and the length of the chunk.
            told = received.partition(b"\r\n\r\n")[2].partition(b"data:")[2]
        hello = json.loads(told.partition(b"\n")[0])
        self._subscribe(str(hello["stream"]))
        threading.Thread(target=self._read, args=(stream,), daemon=True).start()
        self.looking.set()

    def _subscribe(self, stream: str) -> None:
        connection = http.client.HTTPConnection(str(self._place.hostname), self._place.port)
        path = f"/api/v1/runs/{self._run}/debug/streams/{stream}/subscriptions"
        body = json.dumps({"version": 1, "subscriptions": self._subscriptions})
        headers = {**self._headers, "Content-Type": "application/json"}
        connection.request("PUT", path, body, headers)
        answer = connection.getresponse()
        told = answer.read()
        connection.close()
        assert answer.status == 200, told

    def _read(self, stream: socket.socket) -> None:
        while received := stream.recv(1 << 20):
            self.captures += received.count(b'"type":"capture"')

    def close(self) -> None:
        """Look away."""
        self.looking.clear()
        if self._stream is not None:
            self._stream.shutdown(socket.SHUT_RDWR)
            self._stream = None

    def keep_asking(self) -> None:
        """While it is open, for ever. Without it a bench would find that pages cost nothing."""
        try:
            self._ask_on_the_beat()
        finally:
            traceback.print_exc()
            os._exit(1)

    def _ask_on_the_beat(self) -> None:
        while self.looking.wait():
            beat = time.monotonic() + random.random()
            due = {path: beat + random.randrange(int(each)) for path, each in self._asked.items()}
            while self.looking.is_set():
                time.sleep(max(0.0, min(TURN_S, min(due.values()) - time.monotonic())))
                now = [path for path, at in due.items() if at <= time.monotonic()]
                # A page names the capture of its batch when it asks for the picture.
                pictures = [path for path in now if "/picture" in path]
                for paths in ([path for path in now if path not in pictures], pictures):
                    if paths and self.looking.is_set():
                        self.ask(self.address(paths))
                        for path in paths:
                            due[path] += self._asked[path]


def main(url: str, tab: str, condition: str) -> None:
    """Obey the words on the input until it ends."""
    page = Page(url, tab, condition)
    threading.Thread(target=page.keep_asking, daemon=True).start()
    print("ready", flush=True)
    for line in sys.stdin:
        word = line.strip()
        if word == "captures":
            print(page.captures, flush=True)
            continue
        page.open() if word == "on" else page.close()
        print(word, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:4])

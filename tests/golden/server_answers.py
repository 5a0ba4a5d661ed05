"""Asks the server over a folder of golden runs everything that can be asked of a stored run."""

from __future__ import annotations

import json
import math
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any
from urllib.parse import quote

from safetensors.torch import load

from midstep.server.root_server import RootServer, RootServerConfig
from tests.golden.golden_copy import GOLDEN, IDS, beat, copy_runs
from tests.golden.scrub import BEGAN
from tests.golden.trainings import PATIENCE_S

RUN = "/api/v1/runs/{run_id}"
DEBUG = f"{RUN}/debug"
ENDLESS = "/api/v1/stream"
QUERIES: dict[str, tuple[str, ...]] = {
    f"{RUN}/commands": ("", "?limit=2"),
    f"{RUN}/console": ("", "?after=3", "?tail=8"),
    f"{RUN}/events": ("", "?after_seq=5&limit=2"),
    f"{RUN}/scalars": (
        "",
        "?names=loss&points=4",
        "?names=loss&start=2&stop=5",
        "?names=nothing",
        "?format=safetensors",
    ),
    f"{DEBUG}/batch": ("", "?format=safetensors"),
    f"{DEBUG}/cosine_matrix": (
        "",
        "?order=cluster",
        "?order=metric:win_rate",
        "?source=som_targets",
        "?source=grad_delta",
        "?tensor=nothing",
        "?format=safetensors",
    ),
    f"{DEBUG}/forces": ("", "?tensor=encoder.weight", "?tensor=nothing"),
    f"{DEBUG}/step_data/force_detail": ("?feature=1", "?feature=1000"),
    f"{DEBUG}/step_data/{{key}}": ("?full=true",),
    f"{DEBUG}/together": ("?ask=state&ask=step_data/keys", "?ask=nothing"),
    # With points=, which points are kept depends on the order of a set, hence on the process.
    f"{DEBUG}/trajectories": ("", "?format=safetensors"),
}
"""What a path is asked with; other paths without a query."""
NAMED: dict[str, tuple[str, ...]] = {
    "command_id": ("nothing",),
    "breakpoint_id": ("1",),
    "file_id": ("nothing",),
    "key": ("features", "health", "nothing"),
}
"""What stands for a name in a path, beside what the run itself lists."""
LISTS = (
    "/api/v1/runs?sort=name",
    "/api/v1/runs?sort=-step&limit=2&offset=1&columns=config.lr,summary.loss",
    "/api/v1/runs?state=failed,killed&sort=name",
    "/api/v1/runs?tag=golden",
    "/api/v1/runs?q=rew&sort=name",
    "/api/v1/runs?where=step%3E%3D10&sort=name",
    "/api/v1/runs?group=state&sort=name",
    "/api/v1/curves?runs=g00000000003,g00000000004&name=loss&points=4",
    "/api/v1/curves?runs=g00000000003&name=val_loss&x=epoch",
    "/api/v1/curves?runs=g00000000003&name=loss&x=time",
    "/api/v1/runs/g99999999999",
    "/api/v1/runs/g99999999999/debug/state",
    "/debug/state",
    "/api/v1/recipes",
    "/api/v1/datasets",
    "/api/v1/influence",
)
"""Questions about all runs."""
DATASET_QUESTIONS = (
    "",
    "/audit",
    "/curriculum?epochs=3",
    "/pairs?limit=2",
    "/pairs?split=val&cluster=1",
    "/pairs/3",
    "/pairs/1000",
)
INFLUENCE_QUESTIONS = (
    "",
    "/update",
    "/0",
    "/1",
    "/7",
    "/0/kernel",
    "/0/kernel?format=safetensors",
    "/0/what_if?advantages=U-000-00:0.5",
)
BODIES: dict[str, Any] = {
    f"POST {DEBUG}/pause": {},
    f"POST {DEBUG}/resume": {},
    f"POST {DEBUG}/stop": {},
    f"POST {DEBUG}/step": {"n": 2},
    f"POST {DEBUG}/run_until": {"step": 99},
    f"POST {DEBUG}/back": {"n": 1},
    f"POST {DEBUG}/watch": {"feature_ids": [1]},
    f"POST {DEBUG}/trajectories/clear": {},
    f"POST {DEBUG}/breakpoints": {"condition": {"kind": "every", "n": 3}},
    f"PATCH {DEBUG}/breakpoints/{{breakpoint_id}}": {"enabled": False},
    f"DELETE {DEBUG}/breakpoints/{{breakpoint_id}}": None,
    f"POST {RUN}/commands": {"command": "set_hparams", "payload": {"lr": 0.1}},
    f"POST {RUN}/commands/{{command_id}}/cancel": {},
    f"POST {RUN}/end": {"how": "terminate"},
}
"""Requests that would change the training; a stored run refuses them."""
VOLATILE = {"modified_at", "made_at", "boundary_age_s", "removed_bytes"}
"""Fields that follow from the clock, the checkout of the files or the name of this machine."""
HELP = {"about", "means", "causes", "advice"}
"""Texts that explain; that there is one is recorded, not its words. Refusals are recorded whole:
whoever rewords one changes it in `answers.json` by hand."""
SAME_FOR_ALL = f"{DEBUG}/rules"
"""Asked of one run only."""
NOT_SERVED = ("lost", "session")
"""Whether a run is lost depends on how often it was asked; a session's answers are an attach's."""
LONGEST = 40
"""Longer lists, such as the pixels of a feature, are recorded by their length and their ends."""
FILES_SHOWN = ("facts/scalars.csv", "notes.txt")
VIEWED = (RUN, f"{RUN}/events?limit=1", f"{RUN}/console", f"{RUN}/files", f"{DEBUG}/state")
"""What is also asked with the token that only looks; some fields are withheld then."""


@dataclass
class GoldenServer:
    """A server over a copy of the golden runs."""

    root: RootServer
    folder: Path
    beaten_at: float = 0.0

    def ask(
        self, method: str, path: str, body: Any = None, *, token: str = "control"
    ) -> dict[str, Any]:
        """Status and body of one answer, as JSON."""
        connection = self._connect(method, path, body, token)
        try:
            answer = connection.getresponse()
            content = answer.read()
            kind = (answer.getheader("content-type") or "").partition(";")[0]
            return {"status": answer.status, "type": kind, "body": self._body(kind, content)}
        finally:
            connection.close()

    def has_counted(self) -> bool:
        """Whether the sizes of all runs are known; a busy machine counts them bit by bit."""
        runs = self.ask("GET", "/api/v1/runs")["body"]["runs"]
        return bool(runs) and all(run["bytes"] is not None for run in runs)

    def stream(self, run_id: str, last_seq: int) -> dict[str, Any]:
        """The stream of a run from its beginning: the first message, and what follows it."""
        connection = self._connect("GET", f"{ENDLESS}?run={run_id}", None, last_event="0.0")
        try:
            answer = connection.getresponse()
            messages = self._messages(answer)
            hello = next(messages)
            seqs: list[int] = []
            fields: dict[str, set[str]] = {}
            while not seqs or seqs[-1] < last_seq:
                message = next(messages)
                first = message.get("first_seq", message.get("seq"))
                if first is not None and message["type"] in ("event", "scalars"):
                    seqs += range(first, message.get("last_seq", first) + 1)
                    fields.setdefault(message["type"], set()).update(message)
            kinds = {kind: sorted(names) for kind, names in sorted(fields.items())}
            return {"status": answer.status, "hello": hello, "seqs": seqs, "fields": kinds}
        finally:
            connection.close()

    def _messages(self, answer: HTTPResponse) -> Iterator[dict[str, Any]]:
        while line := answer.readline():
            if line.startswith(b"data:"):
                yield self._normal(json.loads(line.removeprefix(b"data:")))
        raise EOFError("the stream ended before the last record")

    def _connect(
        self,
        method: str,
        path: str,
        body: Any,
        token: str = "control",
        last_event: str | None = None,
    ) -> HTTPConnection:
        self._keep_alive()
        port = int(self.root.base.rpartition(":")[2])
        connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
        secret = self.root.tokens.control if token == "control" else self.root.tokens.viewer
        headers = {"Authorization": f"Bearer {secret}"}
        if method != "GET":
            headers["Content-Type"] = "application/json"
        if last_event is not None:
            headers["Last-Event-ID"] = last_event
        data = None if body is None else json.dumps(body).encode()
        connection.request(method, path, body=data, headers=headers)
        return connection

    def _keep_alive(self) -> None:
        """The run on another host stays live, however slow this machine is."""
        if time.monotonic() - self.beaten_at >= 1.0:
            self.beaten_at = time.monotonic()
            beat(self.folder / "runs" / "elsewhere")

    def _body(self, kind: str, content: bytes) -> Any:
        if kind == "application/json":
            return self._normal(json.loads(content))
        if content.startswith(b'[{"status"'):
            return self._together(content)
        if kind == "application/octet-stream" and content[8:9] == b"{":
            return {
                name: {"dtype": str(tensor.dtype), "values": self._normal(tensor.tolist())}
                for name, tensor in sorted(load(content).items())
            }
        return content.decode("utf-8", "replace")

    def _together(self, content: bytes) -> list[Any]:
        """Several answers in one: a line of heads, then the bodies end to end."""
        heads, _, rest = content.partition(b"\n")
        answers = []
        for head in json.loads(heads):
            part, rest = rest[: head["bytes"]], rest[head["bytes"] :]
            answers.append({"status": head["status"], "body": self._normal(json.loads(part))})
        return answers

    def _normal(self, value: Any) -> Any:
        """The answer without clocks and without the folder of this test; long lists shortened."""
        if isinstance(value, dict):
            gone = VOLATILE | ({"updated_at"} if value.get("live") is True else set())
            gone |= {"number"} if "boundary_age_s" in value else set()
            return {
                name: None
                if name in gone
                else "<text>"
                if name in HELP and each
                else self._normal(each)
                for name, each in value.items()
            }
        if isinstance(value, list):
            if len(value) > LONGEST:
                ends = [self._normal(each) for each in (*value[:3], *value[-3:])]
                return {"length": len(value), "ends": ends}
            return [self._normal(each) for each in value]
        if isinstance(value, float) and not math.isfinite(value):
            return str(value)
        if isinstance(value, str):
            return value.replace(str(self.folder), "<outputs>")
        return value


@contextmanager
def serving_golden(folder: Path) -> Iterator[GoldenServer]:
    """A server over a copy of the golden runs in `folder`, once it has looked at all of them."""
    copy_runs(folder, without=NOT_SERVED)
    shutil.copytree(GOLDEN / "influence", folder / "influence")
    shutil.copytree(GOLDEN / "datasets", folder / "data")
    for number, path in enumerate(sorted((folder / "data").rglob("*"))):
        os.utime(path, (BEGAN + number, BEGAN + number))  # the newest dataset is listed first
    config = RootServerConfig(outputs=folder, port=0, data=(folder / "data",))
    with RootServer(config) as root:
        server = GoldenServer(root, folder)
        deadline = time.monotonic() + PATIENCE_S
        while not server.has_counted():
            if time.monotonic() > deadline:
                raise TimeoutError("the sizes of the runs were not counted")
            time.sleep(0.05)
        yield server


def golden_paths() -> list[str]:
    """Every GET path of a run in the golden OpenAPI document."""
    document = json.loads((GOLDEN / "openapi.json").read_text(encoding="utf-8"))
    return [path for path, methods in document["paths"].items() if RUN in path and "get" in methods]


def reads(server: GoldenServer, run_id: str) -> dict[str, Any]:
    """The answers to every read route of a run, by request."""
    names = _names(server, run_id)
    answers: dict[str, Any] = {}
    for path in golden_paths():
        for filled in _filled(path, names):
            for query in QUERIES.get(path, ("",)):
                if path != SAME_FOR_ALL or run_id == IDS["rewound"]:
                    answers[f"GET {filled}{query}"] = server.ask("GET", _of(run_id, filled + query))
    for path in VIEWED:
        answers[f"GET {path} as viewer"] = server.ask("GET", _of(run_id, path), token="viewer")
    last_seq = server.ask("GET", _of(run_id, f"{RUN}/scalars"))["body"]["seq"]
    answers[f"GET {ENDLESS}"] = server.stream(run_id, last_seq)
    return answers


def _of(run_id: str, path: str) -> str:
    return path.replace("{run_id}", run_id)


def refusals(server: GoldenServer, run_id: str) -> dict[str, Any]:
    """The answers to every request that would change a training."""
    answers = {}
    for request, body in BODIES.items():
        method, _, path = request.partition(" ")
        (filled, *_) = _filled(path, NAMED)
        answers[f"{method} {filled}"] = server.ask(method, _of(run_id, filled), body)
    answers["as viewer"] = server.ask("POST", _of(run_id, f"{DEBUG}/pause"), {}, token="viewer")
    return answers


def edits(server: GoldenServer) -> dict[str, Any]:
    """The answers to what people do with stored runs: labels and deletion."""
    failed, elsewhere = (f"/api/v1/runs/{IDS[name]}" for name in ("failed", "elsewhere"))
    requests = [
        ("PATCH", failed, {"tags": ["kept", "kept "], "note": "A note."}),
        ("PATCH", failed, {"note": ""}),
        ("DELETE", failed, {"confirm": "another"}),
        ("DELETE", elsewhere, {"confirm": "elsewhere"}),
        ("DELETE", failed, {"confirm": "failed"}),
        ("GET", failed, None),
    ]
    return {
        f"{number} {method} {path}": server.ask(method, path, body)
        for number, (method, path, body) in enumerate(requests)
    }


def _names(server: GoldenServer, run_id: str) -> Mapping[str, tuple[str, ...]]:
    """Names in paths: those that the run lists, and one that it has not."""
    commands = server.ask("GET", f"/api/v1/runs/{run_id}/commands?limit=1")["body"]
    files = server.ask("GET", f"/api/v1/runs/{run_id}/files")["body"]
    listed = [each["id"] for each in commands] if isinstance(commands, list) else []
    shown = [each["id"] for each in files.get("files", []) if each["path"] in FILES_SHOWN]
    return {
        **NAMED,
        "command_id": (*NAMED["command_id"], *listed),
        "file_id": (*NAMED["file_id"], *shown),
    }


def _filled(path: str, names: Mapping[str, tuple[str, ...]]) -> list[str]:
    for name, values in names.items():
        if f"{{{name}}}" in path:
            return [path.replace(f"{{{name}}}", quote(value)) for value in values]
    return [path]


def lists(server: GoldenServer) -> dict[str, Any]:
    """The answers about all runs."""
    return {f"GET {path}": server.ask("GET", path) for path in LISTS}


def stored_data(server: GoldenServer) -> dict[str, Any]:
    """The answers about the golden datasets and the golden influence result."""
    paths = []
    for dataset in server.ask("GET", "/api/v1/datasets")["body"]["datasets"]:
        base = f"/api/v1/datasets/{dataset['id']}"
        paths += [f"{base}{rest}" for rest in DATASET_QUESTIONS]
    for result in server.ask("GET", "/api/v1/influence")["body"]["results"]:
        base = f"/api/v1/influence/{result['id']}"
        paths += [f"{base}{rest}" for rest in INFLUENCE_QUESTIONS]
    return {f"GET {path}": server.ask("GET", path) for path in paths}


def all_answers(server: GoldenServer) -> dict[str, dict[str, Any]]:
    """Every answer, by the directory of the run."""
    runs = server.ask("GET", "/api/v1/runs?sort=name")["body"]["runs"]
    return {
        "lists": lists(server),
        **{
            run["directory"]: {**reads(server, run["id"]), **refusals(server, run["id"])}
            for run in runs
        },
        "data and influence": stored_data(server),
        "edits": edits(server),
    }

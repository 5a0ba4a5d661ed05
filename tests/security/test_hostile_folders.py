"""Every verb and every route over folders of a stranger: no hang, no traceback, no 500, no leak."""

from __future__ import annotations

import json
import re
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote
from zlib import crc32

import pytest

from midstep.cli.main import main
from midstep.facts import RunIndex
from midstep.facts.index.index_cache import VERSION, cache_file
from midstep.server.app import create_app
from midstep.server.auth.guard import GuardConfig
from midstep.server.auth.tokens import Tokens
from midstep.server.datasets.data_roots import DataRoots
from midstep.server.runs.run_catalog import RootCatalog
from midstep.server.runs.run_table import ServedRuns
from midstep.server.transport.server_thread import ServerThread
from tests.facts.stored_runs import write_run
from tests.security.hostile_folders import (
    MAKERS,
    SECRET,
    TWICE_NAMED,
    make_hostile_datasets,
    make_hostile_results,
    make_hostile_root,
    make_hostile_sweeps,
    second_file,
)
from tests.security.walk import FILL
from tests.served import Served

KEPT = re.compile(r"runs/\{run_id\}/(debug/(batch|step_data)|console)")
"""Routes that also answer with what was kept of a stop."""
FREEZE_S = 5.0
"""A server that does not tell its health for so long counts as frozen."""
MEMORY_BYTES = 900 << 20
"""What all of it may take beyond what the process has: two chunks of a steps file, each copied."""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("outside") / "outputs"
    (folder / "runs").mkdir(parents=True)
    secret = folder.parent / "secret"
    make_hostile_root(folder, secret)
    make_hostile_results(folder, secret)
    make_hostile_datasets(folder / "data", secret)
    write_run(folder / "runs" / "sound")
    make_hostile_sweeps(folder, secret)
    yield folder
    assert secret.read_text() == SECRET
    assert second_file(secret).read_text() == TWICE_NAMED


@pytest.fixture
def run_dirs(root: Path) -> list[Path]:
    return sorted((root / "runs").iterdir())


def verbs(path: Path) -> list[list[str]]:
    run = str(path)
    return [
        ["runs", "show", run],
        ["runs", "tail", run, "--no-follow"],
        ["runs", "export", run],
        ["runs", "media", run],
        ["runs", "stops", run],
        ["runs", "console", run],
        ["runs", "console", run, "--all"],
        ["runs", "console", run, "--stop", "10"],
        ["runs", "rm", run, "--dry-run"],
        ["runs", "terminate", run],
    ]


def runs_clean(
    command: list[str], capfd: pytest.CaptureFixture[str], *, codes: tuple[int, ...] = (0, 2)
) -> None:
    """The command ends by itself, prints only what a terminal may show, and tells no secret."""
    assert main(command) in codes, command
    shown = "".join(capfd.readouterr())
    assert "Traceback" not in shown, command
    assert SECRET not in shown, command
    assert shown.replace("\n", "").isprintable(), command


@pytest.mark.timeout(300)
def test_every_verb_survives_every_run_directory(run_dirs, root, capfd, most_memory):
    assert len(run_dirs) >= len(MAKERS)
    with most_memory(MEMORY_BYTES):
        for path in run_dirs:
            for command in verbs(path):
                runs_clean(command, capfd)
        for folder in (root, root / "runs"):
            for json_or_not in ([], ["--json"]):
                runs_clean(["runs", "ls", "--save-dir", str(folder), *json_or_not], capfd)
            runs_clean(["ctl", "state", "--save-dir", str(folder)], capfd)
        for name in ("links", "pipes", "giant_small_files", "folders_as_files", "deep_json"):
            for verb in (["influence", "show"], ["data", "info"]):
                runs_clean([*verb, str(root / "runs" / name)], capfd)


@pytest.mark.timeout(120)
def test_every_verb_survives_datasets_and_results(root, tmp_path, capfd, most_memory):
    with most_memory(MEMORY_BYTES):
        for path in sorted((root / "influence").iterdir()):
            for command in (["influence", "show", str(path)], ["influence", "validate", str(path)]):
                runs_clean(command, capfd)
        for path in sorted((root / "data").iterdir()):
            for verb in ("info", "validate"):
                runs_clean(["data", verb, str(path)], capfd)
            runs_clean(["data", "audit", str(path), "--write"], capfd, codes=(0, 1, 2))
            runs_clean(["data", "convert", str(path), str(tmp_path / path.name)], capfd)


@pytest.mark.parametrize(
    ("name", "verbs"),
    [
        ("config", ["info", "validate", "audit", "convert"]),
        ("table", ["info", "validate", "audit", "convert"]),
        ("texts", ["audit"]),
        ("offsets", ["audit"]),
        ("folder", ["audit"]),
        ("triplets", ["info", "validate"]),
        ("clusters", ["info", "validate"]),
    ],
)
def test_a_link_out_of_a_dataset_is_refused(root, tmp_path, capfd, name, verbs):
    """Also where it leads to a file that is as it should be."""
    for verb in verbs:
        target = [str(tmp_path / "new")] if verb == "convert" else []
        assert main(["data", verb, str(root / "data" / f"link_as_{name}"), *target]) == 2, verb
        message = capfd.readouterr().err
        assert "links are not followed" in message or name == "folder", (verb, message)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.timeout(120)
def test_every_verb_survives_the_sweeps_of_a_stranger(root, capfd, most_memory):
    with most_memory(MEMORY_BYTES):
        runs_clean(["sweep", "ls", "--root", str(root)], capfd)
        for folder in sorted((root / "multiruns").iterdir()):
            # The list above has read every plan, with what it names.
            if folder.name.startswith(("exp_header_", "exp_job_", "exp_named_")):
                continue
            sweep = str(folder)
            for command in (["status", sweep, "--json"], ["stop", sweep], ["stop", sweep, "0"]):
                runs_clean(["sweep", *command], capfd)
            # No cell has this number: the sweep is opened and held, and trains nothing.
            runs_clean(["sweep", "run", sweep, "--cell", "999"], capfd, codes=(0, 1, 2))
    assert main(["sweep", "status", str(root / "multiruns" / "exp_linked_runs")]) == 0
    assert "2 missing" in "".join(capfd.readouterr())


@contextmanager
def serving(root: Path) -> Iterator[Served]:
    """A server over all of it, as `midstep serve` is one."""
    tokens, catalog = Tokens.fresh(), RootCatalog(RunIndex(root, "memory"))
    runs = ServedRuns(catalog)
    app = create_app(
        runs,
        guard=GuardConfig(tokens=tokens),
        catalog=catalog,
        forward=catalog,
        datasets=DataRoots(root / "data"),
    )
    server = ServerThread(app)
    url = server.start()
    try:
        yield Served(None, runs, tokens, app, url, int(url.rsplit(":", 1)[1]), server)
    finally:
        server.close()


@pytest.fixture(scope="module")
def served(root: Path) -> Iterator[Served]:
    with serving(root) as server:
        yield server


class Watchdog:
    """Asks for the health of a server all the time; one that freezes fails the test."""

    def __init__(self, served: Served) -> None:
        self._served, self._over = served, threading.Event()
        self.statuses: set[int] = set()
        self.longest_s = 0.0
        self._thread = threading.Thread(target=self._watch, name="watchdog")

    def _watch(self) -> None:
        while not self._over.wait(0.05):
            began_s = time.monotonic()
            self.statuses.add(self._served.ask("GET", "/api/v1/health", token=None).status)
            self.longest_s = max(self.longest_s, time.monotonic() - began_s)

    def __enter__(self) -> Watchdog:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def saw_no_freeze(self) -> bool:
        """Whether every answer came, and came soon: a machine at its limit is slow, not frozen."""
        return self.statuses == {200} and self.longest_s < FREEZE_S


def addresses(served: Served) -> list[str]:
    """Every GET route, with every id of the lists filled in; the endless stream is left out."""
    rows = served.ask("GET", "/api/v1/runs").json()["runs"]
    # The cells of hostile sweeps are sound runs, each like the other.
    cells = [row["id"] for row in rows if row["directory"].startswith("multiruns/")]
    ids = [row["id"] for row in rows if row["id"] not in cells[1:]]
    datasets = [each["id"] for each in served.ask("GET", "/api/v1/datasets").json()["datasets"]]
    results = ["deep", "types", "long", "pipe", "giant", "link"]
    paths = []
    for route in served.app.routes:
        if "GET" not in (getattr(route, "methods", None) or ()) or route.path == "/api/v1/stream":
            continue
        chosen = (
            [{"run_id": each} for each in ids]
            if "{run_id}" in route.path
            else [{"dataset_id": each} for each in datasets]
            if "{dataset_id}" in route.path
            else [{"result_id": each} for each in results]
        )
        for fill in chosen if "{" in route.path else [{}]:
            names = {"index": "0", "epoch": "0", **FILL, **fill}
            path = re.sub(
                r"\{(\w+)(:\w+)?\}", lambda m, names=names: quote(names.get(m[1], "x")), route.path
            )
            paths.append(path)
            if KEPT.search(route.path):
                paths += [f"{path}?{query}" for query in ("stop=10", "stop=12")]
    # Run by run, as a page asks: a server keeps the runs open that it was asked for last.
    return sorted(paths, key=lambda path: path.split("/")[4:5])


@pytest.mark.timeout(300)
def test_every_route_answers_over_every_folder(served, root, most_memory):
    paths = addresses(served)
    assert len(paths) > 500
    with Watchdog(served) as watchdog, most_memory(MEMORY_BYTES):
        for path in paths:
            query = "?ask=state&ask=forces" if path.endswith("/together") else ""
            query = "?runs=x&name=loss" if path.endswith("/curves") else query
            if "/batch/sample" in path:
                query = "&index=0" if "?" in path else "?index=0"
            answer = served.ask("GET", path + query)
            assert answer.status not in (500, 502, 504), (path, answer.body)
            if answer.status >= 400 and path.startswith("/api"):
                assert answer.json()["message"], path
            assert SECRET.encode() not in answer.body, path
    assert watchdog.saw_no_freeze(), watchdog.longest_s


def test_every_route_of_sweeps_answers_over_the_sweeps_of_a_stranger(served):
    with Watchdog(served) as watchdog:
        listed = served.ask("GET", "/api/v1/sweeps").json()
        assert "multiruns/exp_header_id_0" in listed["damaged"]
        fields = ("multiruns/exp_header_", "multiruns/exp_job_")
        sweeps = [row for row in listed["sweeps"] if not row["directory"].startswith(fields)]
        assert {"multiruns/exp_linked_runs"} <= {row["directory"] for row in sweeps}
        for row in sweeps:
            path = f"/api/v1/sweeps/{row['id']}"
            shown = served.ask("GET", path)
            assert shown.status == 200, (row, shown.body)
            assert SECRET.encode() not in shown.body, row
            for method, more in (("POST", "/stop"), ("POST", "/cells/0/stop")):
                answer = served.ask(method, path + more)
                assert 400 <= answer.status < 500, (row, answer.body)
                assert answer.json()["message"], row
    assert watchdog.saw_no_freeze(), watchdog.longest_s


@pytest.mark.timeout(120)
def test_every_route_that_changes_a_run_answers_over_every_folder(tmp_path, most_memory):
    root = tmp_path / "outputs"
    secret = tmp_path / "secret"
    folders = make_hostile_root(root, secret)
    with serving(root) as served, Watchdog(served) as watchdog, most_memory(MEMORY_BYTES):
        rows = served.ask("GET", "/api/v1/runs").json()["runs"]
        assert len(rows) > len(folders) // 2
        for row in rows:
            path = f"/api/v1/runs/{row['id']}"
            for method, more, body in (
                ("PATCH", "", {"tags": ["mine"], "note": "see #token=abc"}),
                ("POST", "/end", {"how": "kill"}),
                ("POST", "/debug/commands", {"name": "pause"}),
                ("DELETE", "", {"confirm": row["directory"]}),
            ):
                answer = served.ask(method, path + more, body)
                assert answer.status not in (500, 502, 504), (method, row, answer.body)
                if answer.status >= 400:
                    assert answer.json()["message"], (method, row)
        left = served.ask("GET", "/api/v1/runs").json()["runs"]
    assert watchdog.saw_no_freeze(), watchdog.longest_s
    assert len(left) < len(rows)
    assert secret.read_text() == SECRET
    assert second_file(secret).read_text() == TWICE_NAMED


def test_files_of_a_stranger_are_sent_as_bytes_or_in_a_sandbox(served):
    runs = served.ask("GET", "/api/v1/runs").json()["runs"]
    run_id = next(run["id"] for run in runs if run["directory"].endswith("odd_texts"))
    files = served.ask("GET", f"/api/v1/runs/{run_id}/files").json()["files"]
    assert any(file["path"].endswith(".svg") for file in files)
    for file in files:
        head = answer_head(served, f"/api/v1/runs/{run_id}/files/{file['id']}")
        assert head.startswith("http/1.1 200")
        assert (
            "content-security-policy: default-src 'none'; style-src 'unsafe-inline'; sandbox"
            in head
        )
        assert "x-content-type-options: nosniff" in head
        is_picture = file["path"].endswith(".svg")
        assert ("content-type: image/svg+xml" in head) == is_picture
        assert ("content-disposition: attachment" in head) != is_picture


def answer_head(served: Served, path: str) -> str:
    """Status and headers as they were sent: a header may be there twice."""
    request = (
        f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\n"
        f"Authorization: Bearer {served.tokens.control}\r\nConnection: close\r\n\r\n"
    )
    with served.raw(request.encode()) as connection, connection.makefile("rb") as answer:
        return answer.read().partition(b"\r\n\r\n")[0].decode("latin-1").lower()


def test_the_sound_run_is_listed_as_it_is(root):
    index = RunIndex(root, "memory")
    index.refresh()
    states = {row.directory: row.state for row in index.rows().rows}
    assert states["runs/sound"] == "finished"
    assert states["runs/links"] == "damaged"


@pytest.mark.parametrize(
    "digest",
    [
        b"{}",
        b"[]",
        b'{"steps": {}, "events": {"offset": "x"}}',
        b'{"steps": {"steps.0.1.bin": {"rows": []}}, "events": {}}',
        b'{"steps": {}, "events": {}, "stamps": 3, "errors": []}',
        b'{"steps": {}, "events": {"last": {"on_start": 1}, "header": {"name": []}}}',
        b'{"steps": {}, "events": {"offset": 1e300}}',
        b"[" * 100_000,
    ],
)
def test_a_poisoned_index_is_built_again(tmp_path, digest):
    write_run(tmp_path / "run")
    path = cache_file(tmp_path)
    assert path is not None
    RunIndex(tmp_path).save_cache()
    path.parent.mkdir(parents=True, exist_ok=True)
    first = RunIndex(tmp_path)
    first.refresh()
    first.save_cache()
    crc = crc32(b"", crc32(digest, crc32(json.dumps([VERSION, "run"]).encode())))
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE run SET digest = ?, history = ?, crc = ?", (digest, b"", crc))
    connection.close()
    index = RunIndex(tmp_path)
    index.refresh()
    assert [(row.state, row.epoch) for row in index.rows().rows] == [("finished", 1)]
    path.unlink()


ODD_VALUES = ["9" * 400, "-" + "9" * 400, "1e999", "%00", "%ff", "x" * 3000, "%0A", "..%2f..%2f"]


@pytest.mark.timeout(300)
def test_no_parameter_of_a_route_makes_a_500(shared):
    document = shared.app.openapi()
    fill = {**FILL, "run_id": shared.run.run_id}
    with Watchdog(shared) as watchdog:
        for path, operations in document["paths"].items():
            if path == "/api/v1/stream" or "get" not in operations:
                continue
            parameters = operations["get"].get("parameters", [])
            for parameter in parameters:
                if parameter["in"] == "header" or parameter["name"] == "run_id":
                    continue
                for value in ODD_VALUES:
                    assert _status(shared, path, fill, parameter, value) not in (500, 502, 504)
    assert watchdog.saw_no_freeze(), watchdog.longest_s


def _status(served: Served, path: str, fill: dict[str, str], parameter: dict, value: str) -> int:
    names = {**fill, parameter["name"]: value} if parameter["in"] == "path" else fill
    address = re.sub(r"\{(\w+)\}", lambda m: names.get(m[1], "x"), path)
    query = f"?{parameter['name']}={value}" if parameter["in"] == "query" else ""
    return served.ask("GET", address + query).status

"""Sweeps over HTTP: listed, shown with effects, started and stopped by ids alone."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from midstep.client import Client
from midstep.core.errors import ClientError
from midstep.loops.sweep.cell_states import pool_holder
from midstep.loops.sweep.plan import PLAN, read_plan
from midstep.server.root_server import RootServer, RootServerConfig
from midstep.server.sweeps.sweep_pool import SweepPool, hold_sweep
from tests.served import Answer
from tests.tiny_sweep import options, plan_of, sweep_in

WAIT_S = 120.0


def wait_until(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.05)


def run_cells(folder: Path, **changes: Any) -> None:
    with hold_sweep(folder):
        SweepPool(folder, options(**changes), on_change=lambda what, cell: None).run()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sweep of which two cells are finished, one failed and one is missing."""
    folder = sweep_in(tmp_path_factory.mktemp("outputs"), plan_of(cells={2: {"error_at": 5}}))
    run_cells(folder, only=(0, 1, 2))
    return folder


@pytest.fixture(scope="module")
def root(folder: Path) -> Iterator[RootServer]:
    with RootServer(RootServerConfig(outputs=folder.parents[1], port=0)) as server:
        yield server


def request(root: RootServer, method: str, path: str, body: Any = None, **how: Any) -> Answer:
    token = how.get("token", root.tokens.now.control)
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    host, port = root.base.removeprefix("http://").split(":")
    connection = HTTPConnection(host, int(port), timeout=WAIT_S)
    try:
        connection.request(
            method,
            f"/api/v1{path}",
            body=None if body is None else json.dumps(body),
            headers=headers,
        )
        answer = connection.getresponse()
        return Answer(answer.status, {}, answer.read())
    finally:
        connection.close()


def test_a_sweep_is_listed_and_shown_with_states_values_and_effects(
    root: RootServer, folder: Path
) -> None:
    (row,) = request(root, "GET", "/sweeps").json()["sweeps"]
    assert row["states"] == {"finished": 2, "failed": 1, "missing": 1}
    assert (row["open"], row["pool"], row["cells"]) == (1, False, 4)
    assert row["directory"] == f"multiruns/{folder.name}"
    shown = request(root, "GET", f"/sweeps/{row['id']}").json()
    assert [axis["label"] for axis in shown["axes"]] == ["level", "seed"]
    assert [cell["state"] for cell in shown["grid"]] == [
        "finished",
        "finished",
        "failed",
        "missing",
    ]
    first, second, failed, _ = shown["grid"]
    assert (first["value"], second["value"]) == (1.0, 1.1)
    assert failed["error"] == "ValueError: bad batch"
    assert failed["share"] == 0.25
    (of_seed,) = [each for each in shown["effects"] if each["axis"] == "seed"]
    assert of_seed["mean"] == pytest.approx(0.1)
    assert of_seed["low"] is None  # one pair has no interval
    assert request(root, "GET", f"/runs/{first['run_id']}").json()["state"] == "finished"
    loss = request(root, "GET", f"/sweeps/{row['id']}?value=loss").json()
    assert loss["grid"][0]["value"] == pytest.approx(1 / 20)


def test_unknown_ids_paths_and_cells_are_refused_alike(root: RootServer, folder: Path) -> None:
    plan = read_plan(folder)
    for sweep_id in ("0123456789ab", folder.name, f"..%2F{folder.name}", plan.id[:-1]):
        assert request(root, "GET", f"/sweeps/{sweep_id}").status == 404
        assert request(root, "POST", f"/sweeps/{sweep_id}/start", {}).status == 404
    at = f"/sweeps/{plan.id}"
    for body in ({"cells": [9]}, {"jobs": 0}, {"argv": ["x"]}, {"cells": ["a"]}, {"jobs": 1.5}):
        assert request(root, "POST", f"{at}/start", body).status == 422
    assert request(root, "POST", f"{at}/cells/9/stop", {}).status == 422
    assert request(root, "POST", f"{at}/cells/0/stop", {}).status == 409
    assert request(root, "POST", f"{at}/stop", {}).status == 409


def test_a_viewer_sees_the_sweep_and_starts_nothing(root: RootServer, folder: Path) -> None:
    viewer = root.tokens.now.viewer
    at = f"/sweeps/{read_plan(folder).id}"
    shown = request(root, "GET", at, token=viewer)
    assert (shown.status, shown.json()["can_start"]) == (200, False)
    for path in ("/start", "/stop", "/cells/0/stop"):
        assert request(root, "POST", f"{at}{path}", {}, token=viewer).status == 403
    assert pool_holder(folder) is None


def test_a_damaged_plan_is_listed_and_hides_no_other(root: RootServer, folder: Path) -> None:
    other = folder.with_name("exp_20260103T030405Z_torn")
    other.mkdir()
    (other / PLAN).write_text('{"kind":"sweep"')
    listed = request(root, "GET", "/sweeps").json()
    assert listed["damaged"] == [f"multiruns/{other.name}"]
    assert len(listed["sweeps"]) == 1


def test_the_page_starts_open_cells_in_a_process_of_their_own(
    root: RootServer, folder: Path
) -> None:
    # The real process of a cell refuses this config, so the cell fails: that shows that it ran.
    sweeps = Client(root.url).sweeps
    (row,) = sweeps.list()
    with pytest.raises(ClientError, match="no process runs this sweep"):
        sweeps.stop(row["id"])
    with pytest.raises(ClientError, match="no process trains cell 3"):
        sweeps.stop(row["id"], 3)
    sweeps.start(row["id"], jobs=1, cells=[3])
    wait_until(lambda: pool_holder(folder) is None)
    shown = sweeps.get(row["id"], value="loss")
    assert [cell["state"] for cell in shown["grid"]][3] == "failed"
    assert "code 2" in shown["grid"][3]["error"]
    assert str(folder) not in json.dumps(shown)  # no path of this machine

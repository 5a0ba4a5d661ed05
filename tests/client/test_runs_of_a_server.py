"""The Python twin of the Runs page."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from midstep.client import Client
from midstep.core.errors import ClientError
from tests.facts.stored_runs import write_run
from tests.server.listed import listing


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    monkeypatch.setattr(os, "fsync", lambda _: None)
    for number in range(3):
        write_run(tmp_path / "runs" / f"run_{number}", lr=0.1 * number)
    with listing(tmp_path / "runs") as served:
        yield Client(served.url, served.tokens.control)


def test_runs_are_chosen_drawn_labelled_and_deleted(client: Client, tmp_path: Path):
    assert len(client.runs.list()) == 3
    (chosen,) = client.runs.list(where=["config.lr>0.05", "config.lr<0.15"])
    page = client.runs.page(group="config.lr", limit=1)
    assert (len(page["runs"]), page["matching"], len(page["groups"])) == (1, 3, 3)
    ids = [each["id"] for each in client.runs.list(sort="config.lr")]
    curves = client.runs.curves(ids, "loss", x="epoch", points=4)
    assert [curve["count"] for curve in curves.values()] == [10, 10, 10]

    run = client.runs.get(chosen["id"])
    assert run.label(tags=["good"], note="NaN")["note"] == "NaN"
    assert client.runs.list(tag="good", q="run_1")[0]["id"] == run.id
    files = {each["path"]: each for each in run.files()}
    assert run.file(files["labels.json"]["id"]).startswith(b'{"version":1')
    assert (run.console()["text"], run.console()["size"]) == ("", 0)
    assert run.lineage()["children"] == []
    with pytest.raises(ClientError, match="type the name"):
        run.delete(confirm="yes")
    assert run.delete(confirm="run_1")["kept"] == []
    assert len(client.runs.list()) == 2
    with pytest.raises(ClientError) as refused:
        run.files()
    assert refused.value.status == 404

"""What a run logged beside numbers, over HTTP and in the terminal, live and ended."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import torch

import midstep
from midstep.cli.main import main
from midstep.client import Client
from midstep.core.media.given_values import own_value
from midstep.facts import FactsWriter
from tests.facts.stored_runs import write_run
from tests.server.listed import listing

VALUES = {
    "samples": torch.rand(4, 3, 8, 8),
    "note": "first line\nsecond <b>line</b>",
    "h": [0.0, 1.0, 1.0],
    "errors": [{"id": 7, "guess": "cat", "p": 0.25}],
}


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("outputs")
    write_run(folder / "run", end=None)
    with FactsWriter(folder / "run", attempt=2) as facts:
        for step in (1, 2):
            facts.log_values(step, {name: own_value(name, each) for name, each in VALUES.items()})
        facts.event("on_train_end", status="finished", step=2)
    return folder


@pytest.fixture(scope="module")
def served(root):
    with listing(root) as made:
        yield made


@pytest.fixture(scope="module")
def base(served):
    run_id = served.ask("GET", "/api/v1/runs").json()["runs"][0]["id"]
    return f"/api/v1/runs/{run_id}/media"


@pytest.fixture(scope="module")
def ids(served, base):
    groups = served.ask("GET", base).json()["groups"]
    return {group["key"]: group["id"] for group in groups}


@pytest.mark.parametrize("token", ["control", "viewer"])
def test_all_kinds_are_listed_and_read_also_by_a_view_only_link(served, base, ids, token):
    listed = served.ask("GET", base, token=token).json()["groups"]
    assert [(each["key"], each["kind"]) for each in listed] == [
        ("errors", "table"),
        ("h", "histogram"),
        ("note", "text"),
        ("samples", "image"),
    ]
    assert all((each["steps"], each["logged"]) == ([1, 2], 2) for each in listed)
    detail = served.ask("GET", f"{base}/{ids['h']}", token=token).json()
    assert sum(detail["items"][0]["histogram"]["counts"]) == 3
    text = served.ask("GET", f"{base}/{ids['note']}/1", token=token).json()
    assert text["text"] == VALUES["note"]
    table = served.ask("GET", f"{base}/{ids['errors']}/0", token=token).json()
    assert (table["columns"], table["rows"]) == (["id", "guess", "p"], [[7, "cat", 0.25]])
    picture = served.ask("GET", f"{base}/{ids['samples']}/0/picture", token=token)
    assert picture.headers["content-type"] == "image/png"
    about = served.ask("GET", f"{base}/{ids['samples']}", token=token).json()["items"][0]["picture"]
    assert int.from_bytes(picture.body[16:20], "big") == about["width"] == 18


@pytest.mark.parametrize(
    "path",
    ["{note}/7", "{note}/0/picture", "{samples}/0", "{h}/0", "0", "%2e%2e", "x" * 64],
)
def test_what_is_not_there_is_a_404(served, base, ids, path):
    assert served.ask("GET", f"{base}/{path.format(**ids)}").status == 404


def test_a_damaged_table_and_a_picture_that_is_none_are_404(served, base, ids, root):
    media = root / "run/artifacts/media"
    for key, suffix in (("errors", "json"), ("samples", "png")):
        (media / ids[key] / f"0.{suffix}").write_text('{"columns": [[1]], "rows": [{}]}')
    assert served.ask("GET", f"{base}/{ids['errors']}/0").status == 404
    assert served.ask("GET", f"{base}/{ids['samples']}/0/picture").status == 404
    assert served.ask("GET", f"{base}/{ids['errors']}/1").status == 200


def test_the_client_reads_them(served, base, ids):
    run = Client(f"{served.url}/#token={served.tokens.control}").runs.get(base.split("/")[4])
    assert {group["key"]: group["id"] for group in run.media()} == ids
    assert run.media_content(ids["note"], 0)["text"] == VALUES["note"]
    assert run.media_picture(ids["samples"], 1).startswith(b"\x89PNG")
    assert len(run.media_group(ids["h"])["items"]) == 2


def test_the_terminal_lists_prints_and_saves_them(root, tmp_path, capsys):
    def told(*arguments: str) -> str:
        assert main(["runs", "media", str(root / "run"), *arguments]) == 0
        return capsys.readouterr().out

    listed = told()
    assert "samples" in listed
    assert "2 of 2" in listed
    assert told("--key", "note") == VALUES["note"] + "\n"
    assert "cat" in told("--key", "errors", "--step", "5")
    assert "3 values" in told("--key", "h")
    assert json.loads(told("--json"))[0]["key"] == "errors"
    out = tmp_path / "picture.png"
    told("--key", "samples", "--out", str(out))
    assert out.read_bytes().startswith(b"\x89PNG")
    assert main(["runs", "media", str(root / "run"), "--key", "samples"]) == 2
    assert main(["runs", "media", str(root / "run"), "--key", "none"]) == 2
    assert "there are: errors, h, note, samples" in capsys.readouterr().err


def test_media_of_a_live_loop_appear_with_their_steps(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda _: None)
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = torch.utils.data.DataLoader(torch.ones(6, 2), batch_size=2)
    with midstep.attach(model, optimizer, loader, save_dir=tmp_path, run_name="run") as run:
        for _ in run.epochs(2):
            for x in loader:
                loss = model(x).sum()
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                run.log(loss=loss, weights=model.weight.detach().flatten())
            run.log(val_accuracy=0.5, note="after an epoch")
    groups = {each.index.key: each for each in reader(tmp_path / "run").groups()}
    assert [item.step for item in groups["weights"].items] == [1, 2, 3, 4, 5, 6]
    assert [item.step for item in groups["note"].items] == [3, 6]
    events = midstep_events(tmp_path / "run")
    assert [e["metrics"] for e in events if e["moment"] == "on_epoch_end"] == [
        {"val_accuracy": 0.5}
    ] * 2


def reader(run_dir: Path):  # type: ignore[no-untyped-def]
    from midstep.facts.read.media import MediaReader

    return MediaReader(run_dir)


def midstep_events(run_dir: Path) -> list[dict]:
    from midstep.facts import FactsReader

    return FactsReader(run_dir).events()


def test_a_loop_with_two_call_sites_and_a_session_log_media_too(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda _: None)
    with midstep.Run(name="two", save_dir=tmp_path, run_name="two") as run:
        for step in range(2):
            run.controller.log(loss=0.5, note=f"at {step}", h=[1, 2])
            run.controller.wait_if_paused()
    kept = {each.index.key: [item.step for item in each.items] for each in reader(run.dir).groups()}
    assert kept == {"note": [1, 2], "h": [1, 2]}

    config = midstep.SessionConfig(save_dir=tmp_path, run_name="session")
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = torch.utils.data.DataLoader(torch.ones(6, 2), batch_size=2)
    with midstep.Session(model, optimizer, None, loader, config=config) as session:

        @session.training_step
        def step(model, batch):
            output = model(batch)
            return {"loss": output.sum(), "output": output, "words": "from the step"}

        @session.on_step
        def log(record):
            assert "words" not in record.metrics, "hooks get scalars"
            session.log(weights=model.weight.detach())

        session.fit(steps=2)
        directory = session.dir
    kinds = {each.index.key: each.index.kind for each in reader(directory).groups()}
    assert kinds == {"words": "text", "weights": "image"}, "the output of a model is no picture"

"""Stored influence results over HTTP: what was found, whole and unharmed, and nothing beside it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load

from midstep.influence.study.results_file import load_results
from tests.influence.stored import store_result
from tests.served import Served, serving

ADDRESS = "/api/v1/influence"


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("result")
    return store_result(folder, folder / "influence")


@pytest.fixture(scope="module")
def shared(finished: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server whose runs lie in outputs/runs, and the result in outputs/influence."""
    outputs = tmp_path_factory.mktemp("outputs")
    shutil.copytree(finished, outputs / "influence" / finished.name)
    with serving(outputs / "runs", loop=None) as made:
        yield made


@pytest.fixture
def outputs(finished: Path, tmp_path: Path) -> Path:
    """A folder of results for tests that spoil it; its runs lie in it, not in `runs`."""
    shutil.copytree(finished, tmp_path / "influence" / finished.name)
    return tmp_path


def results_of(served: Served) -> list[dict]:
    return served.ask("GET", ADDRESS, token="viewer").json()["results"]


def test_finished_and_unfinished_results_are_listed_newest_first(outputs, finished):
    begun = outputs / "influence" / "zz_begun"
    begun.mkdir()
    (begun / "plan.json").write_text("{}")
    os.utime(begun / "plan.json", (2e9, 2e9))
    with serving(outputs, loop=None) as served:
        first, second = results_of(served)
    assert (first["id"], first["state"]) == ("zz_begun", "unfinished")
    assert "same plan again" in first["problem"]
    assert (second["id"], second["name"], second["state"]) == (
        finished.name,
        "small study",
        "finished",
    )
    assert (second["step"], second["requests"]) == (3, ["held", "nine"])
    assert (second["update_sequences"], second["evaluated_sequences"]) == (16, 7)


def test_a_result_tells_texts_weights_coverage_and_the_check(shared, finished):
    told = shared.ask("GET", f"{ADDRESS}/{finished.name}", token="viewer").json()
    stored = json.loads((finished / "results.json").read_text())
    assert [one["response"] for one in told["update"]] == [
        one["response"] for one in stored["update"]["sequences"]
    ]
    assert told["coverage"] == stored["update"]["coverage"]
    assert sum(told["coverage"].values()) == pytest.approx(1.0)
    assert [one["lr"] for one in told["validation"]["rates"]] == [1e-3, 1e-4]
    assert told["checkpoint"] == "step-3"
    assert [one["name"] for one in told["requests"]] == ["held", "nine"]


def test_no_path_of_the_machine_is_told(shared, finished):
    for rest in ("", "/0", "/update"):
        body = shared.ask("GET", f"{ADDRESS}/{finished.name}{rest}").body
        assert str(finished.parent).encode() not in body


def test_a_batch_tells_changes_and_contributors(shared, finished):
    told = shared.ask("GET", f"{ADDRESS}/{finished.name}/0", token="viewer").json()
    stored = load_results(finished).request("held")
    assert [one["delta"]["total"] for one in told["sequences"]] == pytest.approx(
        stored.delta["total"].tolist()
    )
    assert [one["sequence_id"] for one in told["sequences"][2]["contributors"]] == [
        one.sequence_id for one in stored.contributors[2]
    ]
    assert told["has_kernel"]


@pytest.mark.parametrize("batch", ["0", "update"])
def test_kernel_travels_as_bytes_and_as_json(shared, finished, batch):
    results = load_results(finished)
    wanted = results.workspace.kernel_uu if batch == "update" else results.requests[0].kernel_eu
    address = f"{ADDRESS}/{finished.name}/{batch}/kernel"
    sent = load(shared.ask("GET", f"{address}?format=safetensors", token="viewer").body)["kernel"]
    np.testing.assert_allclose(sent, wanted.numpy(), rtol=1e-6)
    told = shared.ask("GET", address, token="viewer").json()
    np.testing.assert_array_equal(np.array(told["kernel"]), wanted.double().numpy())
    assert told["columns"] == list(results.workspace.batch.sequence_ids)


def test_what_if_equals_the_library_and_says_what_is_held(shared, finished):
    results = load_results(finished)
    changed = {"U-000-00": 0.0, "U-001-02": -1.5}
    wanted = results.requests[0].what_if(results.workspace, changed)
    asked = ",".join(f"{name}:{value}" for name, value in changed.items())
    told = shared.ask(
        "GET", f"{ADDRESS}/{finished.name}/0/what_if?advantages={asked}", token="viewer"
    ).json()
    for name in ("total", "kernel", "momentum"):
        found = torch.tensor([one[name] for one in told["delta"]], dtype=torch.float64)
        torch.testing.assert_close(found, wanted[name].double(), rtol=1e-5, atol=1e-9)
    assert not told["exact"]
    assert "preconditioner is held" in told["note"]


def test_what_if_without_changes_is_the_stored_change(shared, finished):
    told = shared.ask("GET", f"{ADDRESS}/{finished.name}/1/what_if").json()
    assert told["delta"][0]["total"] == pytest.approx(told["was"][0]["total"], rel=1e-5)


@pytest.mark.parametrize("asked", ["U-9-9:1", "U-000-00", "U-000-00:nan", "U-000-00:1e999", ":"])
def test_odd_advantages_are_refused_by_name(shared, finished, asked):
    answer = shared.ask("GET", f"{ADDRESS}/{finished.name}/0/what_if?advantages={asked}")
    assert (answer.status, answer.json()["field"]) == (422, "advantages")


ODD_IDS = ["..", "%2e%2e", "..%2fruns", "a%00b", "x" * 5000, "%ff%fe", "<script>", "linked", "file"]


@pytest.mark.parametrize("rest", ["", "/0", "/update/kernel", "/0/what_if"])
@pytest.mark.parametrize("result_id", ODD_IDS, ids=lambda text: text[:20])
def test_every_wrong_id_gets_the_same_answer(shared, finished, result_id, rest):
    root = shared.run.dir.parent.parent / "influence"
    if not (root / "linked").is_symlink():
        (root / "linked").symlink_to(finished, target_is_directory=True)
        (root / "file").write_text("{}")
    unknown = shared.ask("GET", "/api/v1/runs/zzzzzzzzzzzz")
    answer = shared.ask("GET", f"{ADDRESS}/{result_id}{rest}")
    assert (answer.status, answer.body) == (404, unknown.body)


@pytest.mark.parametrize("batch", ["2", "999", "-1", "00_x", "..", "%31%2e", "١"])
def test_unknown_batches_are_404(shared, finished, batch):
    from urllib.parse import quote

    address = f"{ADDRESS}/{finished.name}/{quote(batch, safe='%')}"
    assert shared.ask("GET", address).status == 404


def test_links_inside_a_result_are_not_followed(outputs, finished, tmp_path):
    folder = outputs / "influence" / finished.name
    secret = tmp_path / "secret.safetensors"
    shutil.move(folder / "workspace" / "arrays.safetensors", secret)
    (folder / "workspace" / "arrays.safetensors").symlink_to(secret)
    shutil.move(folder / "requests", tmp_path / "elsewhere")
    (folder / "requests").symlink_to(tmp_path / "elsewhere")
    with serving(outputs, loop=None) as served:
        for batch in ("update", "0"):
            told = served.ask("GET", f"{ADDRESS}/{finished.name}/{batch}").json()
            assert not told["has_kernel"]
            answer = served.ask("GET", f"{ADDRESS}/{finished.name}/{batch}/kernel")
            assert (answer.status, answer.json()["error"]) == (409, "no_kernel")


@pytest.mark.parametrize(
    "content",
    [b"{", b"[]", b'{"format":"other"}', b'{"format":"midstep.influence/1"}', b"[" * 100_000],
    ids=["cut", "list", "other", "empty", "deep"],
)
def test_damaged_results_are_listed_with_the_reason_and_refused(outputs, finished, content):
    (outputs / "influence" / finished.name / "results.json").write_bytes(content)
    with serving(outputs, loop=None) as served:
        (line,) = results_of(served)
        assert line["state"] == "damaged"
        assert line["problem"]
        answer = served.ask("GET", f"{ADDRESS}/{finished.name}")
        assert (answer.status, answer.json()["error"]) == (409, "damaged")


@pytest.mark.parametrize("cut", [4, 9, 200])
def test_a_kernel_file_that_was_cut_is_refused(outputs, finished, cut):
    file = outputs / "influence" / finished.name / "workspace" / "arrays.safetensors"
    file.write_bytes(file.read_bytes()[:cut])
    with serving(outputs, loop=None) as served:
        answer = served.ask("GET", f"{ADDRESS}/{finished.name}/update/kernel")
    assert (answer.status, answer.json()["error"]) == (409, "damaged")


def test_a_result_that_is_written_again_is_read_again(outputs, finished):
    file = outputs / "influence" / finished.name / "results.json"
    with serving(outputs, loop=None) as served:
        before = served.ask("GET", f"{ADDRESS}/{finished.name}").json()["name"]
        told = json.loads(file.read_text())
        file.write_text(json.dumps({**told, "name": "another"}))
        after = served.ask("GET", f"{ADDRESS}/{finished.name}").json()["name"]
    assert (before, after) == ("small study", "another")

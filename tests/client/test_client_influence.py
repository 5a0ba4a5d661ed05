"""Stored influence results from Python, as the page shows them."""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from midstep.client import Client
from midstep.client.number_conversion import convert_numbers
from midstep.core.errors import ClientError
from tests.influence.stored import store_result
from tests.served import serving


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("result")
    return store_result(folder, folder / "influence", prompts=2, evaluated=3)


@pytest.fixture(scope="module")
def client(finished: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    outputs = tmp_path_factory.mktemp("outputs")
    shutil.copytree(finished, outputs / "influence" / finished.name)
    with serving(outputs / "runs", loop=None) as served:
        yield Client(served.url, served.tokens.viewer)


def test_a_stored_result_is_found_and_read(client: Client, finished: Path) -> None:
    (line,) = client.influence.results()
    assert (line["id"], line["state"], line["requests"]) == (
        finished.name,
        "finished",
        ["held", "nine"],
    )
    told = client.influence.result(line["id"])
    assert len(told["update"]) == 8
    assert sum(told["coverage"].values()) == pytest.approx(1.0)
    asked = client.influence.batch(line["id"], 1)
    assert [(one["prompt"], one["response"]) for one in asked["sequences"]] == [("9+9=", "18")]


def test_the_kernel_times_the_weights_is_the_stored_change(client: Client, finished: Path) -> None:
    told = client.influence.result(finished.name)
    kernel = client.influence.kernel(finished.name)
    weights = {one["sequence_id"]: one["weight"] for one in told["update"]}
    factor = told["step"]["lr"] * told["step"]["rate"] * told["step"]["clip_factor"]
    for one, row in zip(
        client.influence.batch(finished.name)["sequences"], kernel["kernel"], strict=True
    ):
        moved = sum(k * weights[name] for k, name in zip(row, kernel["columns"], strict=True))
        assert factor * moved == pytest.approx(one["delta"]["kernel"], rel=1e-5)
    square = client.influence.kernel(finished.name, "update")
    assert square["rows"] == square["columns"] == kernel["columns"]


def test_without_any_advantage_nothing_of_the_batch_moves(client: Client, finished: Path) -> None:
    names = client.influence.kernel(finished.name)["columns"]
    none = client.influence.what_if(finished.name, dict.fromkeys(names, 0.0))
    assert [one["kernel"] for one in none["delta"]] == pytest.approx([0.0] * 3, abs=1e-12)
    same = client.influence.what_if(finished.name, {})
    before = client.influence.batch(finished.name)["sequences"]
    assert [one["total"] for one in same["delta"]] == pytest.approx(
        [one["delta"]["total"] for one in before]
    )


def test_wrong_names_are_refused_with_the_servers_words(client: Client, finished: Path) -> None:
    for result_id, batch in (("../runs", 0), (finished.name, 7), (finished.name, "x/y")):
        with pytest.raises(ClientError) as caught:
            client.influence.batch(result_id, batch)
        assert caught.value.status == 404
    with pytest.raises(ClientError, match="ids of the update"):
        client.influence.what_if(finished.name, {"U-999-00": 1.0})


def test_a_response_that_reads_like_a_number_stays_text() -> None:
    sequence = {"response": "NaN", "reward": "Infinity"}
    path = "/api/v1/influence/study/update?full=1"
    converted = convert_numbers("GET", path, {"sequences": [sequence]})
    assert converted == {"sequences": [{"response": "NaN", "reward": math.inf}]}

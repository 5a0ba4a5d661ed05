"""Several questions in one request have the answers they have one by one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

import pytest
import torch

from midstep.server.debug.batched_requests import MOST_QUESTIONS
from midstep.server.runs.live_run import LiveRunView
from tests.served import Served, serving, serving_root

if TYPE_CHECKING:
    from pathlib import Path

QUESTIONS = [
    "state",
    "batch",
    "step_data/keys",
    "step_data/plain",
    f"step_data/{quote('named é/?&', safe='')}",
    "step_data/plain?format=safetensors",
    "step_data/plain?format=neither",
    "step_data/missing",
    "rewind",
    "trajectories?points=2&format=safetensors",
    "trajectories?points=one",
    "nothing/of/the/kind",
    "",
]


@pytest.fixture(scope="module", params=[serving, serving_root], ids=["own", "forwarded"])
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    with request.param(tmp_path_factory.mktemp("asked")) as made:
        made.controller.captures.add_step_data("plain", torch.arange(6.0).reshape(2, 3))
        made.controller.captures.add_step_data("named é/?&", [1, float("nan")])
        yield made


def asked(served: Served, questions: list[str], **how: Any) -> list[tuple[int, bytes]]:
    query = urlencode([("ask", each) for each in questions])
    answer = served.ask("GET", f"{served.debug}/together?{query}", **how)
    assert answer.status == 200, answer.body
    assert answer.headers["content-type"] == "application/octet-stream"
    line, _, bodies = answer.body.partition(b"\n")
    found = []
    for head in json.loads(line):
        found.append((head["status"], bodies[: head["bytes"]]))
        bodies = bodies[head["bytes"] :]
    assert bodies == b""
    return found


def comparable(body: bytes) -> Any:
    """Without what is another at every look: ages, and the order in a header of safetensors."""
    try:
        told = json.loads(body)
    except ValueError:
        end = 8 + int.from_bytes(body[:8], "little")
        return json.loads(body[8:end]), body[end:]
    return {**told, "boundary_age_s": None, "number": None} if "boundary_age_s" in told else told


def test_each_answer_is_what_it_is_alone(served: Served) -> None:
    together = asked(served, QUESTIONS)
    alone = [served.ask("GET", f"{served.debug}/{each}") for each in QUESTIONS]
    assert [status for status, _ in together] == [each.status for each in alone]
    assert {status for status, _ in together} == {200, 404, 422}
    for (_, body), answer in zip(together, alone, strict=True):
        assert comparable(body) == comparable(answer.body)


def test_the_short_address_asks_the_only_live_run(served: Served) -> None:
    answer = served.ask("GET", "/debug/together?ask=state&ask=rewind")
    heads = json.loads(answer.body.partition(b"\n")[0])
    assert [head["status"] for head in heads] == [200, 200]


def test_nothing_can_be_changed_by_asking(served: Served) -> None:
    before = served.controller.get_state()["step"]
    found = asked(served, ["step", "resume", "pause", "trajectories/clear"], token="viewer")
    assert [status for status, _ in found] == [405] * 4
    assert served.controller.get_state()["step"] == before
    assert served.controller.get_state()["state"] == "paused"


def test_an_error_of_ours_is_one_answer_of_several(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: LiveRunView) -> dict[str, Any]:
        raise ZeroDivisionError

    monkeypatch.setattr(LiveRunView, "state", broken)
    (broken_status, told), (status, _) = asked(served, ["state", "rewind"])
    assert (broken_status, json.loads(told)["error"], status) == (500, "incident", 200)


@pytest.mark.parametrize(
    "query",
    [
        "",
        urlencode([("ask", "state")] * (MOST_QUESTIONS + 1)),
        "ask=together%3Fask%3Dstate",
        "ask=%2574ogether%3Fask%3Dstate",
    ],
    ids=["none", "too many", "several again", "several again, in disguise"],
)
def test_what_cannot_be_asked_together_is_refused(served: Served, query: str) -> None:
    answer = served.ask("GET", f"{served.debug}/together?{query}")
    assert (answer.status, answer.json()["field"]) == (422, "ask")


def test_no_token_no_answer(served: Served) -> None:
    answer = served.ask("GET", f"{served.debug}/together?ask=state", token=None)
    assert answer.status == 401


def test_a_run_that_ended_answers_from_its_facts(tmp_path: Path) -> None:
    with serving_root(tmp_path) as served:
        served.ask("POST", f"{served.debug}/stop")
        alone = served.ask("GET", f"{served.debug}/state")
        ((status, body),) = asked(served, ["state"])
        assert (status, comparable(body)) == (200, comparable(alone.body))

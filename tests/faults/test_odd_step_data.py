"""Odd step data and scalars in a served run: shown, summarised or noted, never a dead run."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from urllib.parse import quote

import pytest
import torch

from midstep.facts import FactsReader
from tests.served import serving


class Uncopyable:
    def __array__(self):
        raise ValueError("no values here")

    def copy(self):
        raise MemoryError("no room")


def itself() -> dict[str, object]:
    held: dict[str, object] = {}
    held["again"] = [held] * 100
    return held


ODD = {
    "10^8 elements": lambda: torch.zeros(10**8, dtype=torch.uint8),
    "10^5 names": lambda: {f"name {i}": float(i) for i in range(10**5)},
    "10 MB of text": lambda: "x" * 10_000_000,
    "complex": lambda: torch.tensor([1j, 2]),
    "bytes": lambda: b"\x00\xff" * 1000,
    "datetime": lambda: datetime(2026, 1, 2, tzinfo=UTC),
    "itself": itself,
    "not to be copied": Uncopyable,
    "not finite": lambda: {"loss": float("nan"), "norm": torch.tensor(float("inf"))},
}


@pytest.mark.parametrize("name", ODD)
def test_odd_step_data_is_answered_and_the_run_goes_on(tmp_path, name):
    value = ODD[name]()

    def loop(run):
        going = run.controller.boundary.enter()
        while going:
            run.controller.capture_step_data(name, value)
            run.log(loss=0.5)
            going = run.controller.wait_if_paused()

    with serving(tmp_path, loop=loop) as served:
        path = f"/debug/step_data/{quote(name, safe='')}"
        for step in (1, 2):
            assert served.ask("POST", "/debug/step", {}).json()["step"] == step
            answer = served.ask("GET", path)
            assert answer.status == 200
            assert len(answer.body) < 8_000_000
            json.loads(answer.body, parse_constant=pytest.fail)
            assert served.ask("GET", f"{path}?format=safetensors").status in (200, 422)


def test_a_hundred_thousand_names_are_logged_and_read_back(tmp_path):
    names = {f"metric {i}": float(i) for i in range(10**5)}

    def loop(run):
        going = run.controller.boundary.enter()
        while going:
            run.log(**names)
            going = run.controller.wait_if_paused()

    with serving(tmp_path, loop=loop) as served:
        assert served.ask("POST", "/debug/step", {"n": 3}).json()["step"] == 3
        found = served.ask(
            "GET", f"/api/v1/runs/{served.run.run_id}/scalars?names=metric%2099999"
        ).json()
        assert found["series"]["metric 99999"]["low"] == [99999.0] * 3
        assert FactsReader(served.run.dir).problems == []

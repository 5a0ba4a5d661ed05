"""Strings for NaN and the infinities become floats where the schema says number, else they stay."""

from __future__ import annotations

import math

import pytest
import torch
from tools import generate_client

from midstep.client.number_conversion import convert_numbers
from midstep.client.number_paths import NUMBER_PATHS
from midstep.control import CommandDefinition

NAN, INF = float("nan"), math.inf


def test_generated_modules_are_current():
    assert generate_client.main(["--check"]) == 0, "run: make types"


@pytest.mark.parametrize(
    ("path", "response", "expected"),
    [
        ("/debug/state", {"loss": "-Infinity"}, {"loss": -INF}),
        ("/api/v1/runs/r1/debug/state", {"loss": "Infinity"}, {"loss": INF}),
        ("/debug/state", {"reason": "NaN", "loss": None}, {"reason": "NaN", "loss": None}),
        (
            "/api/v1/runs?tag=NaN",
            {"runs": [{"name": "NaN", "tags": ["NaN"], "summary": {"loss": "Infinity"}}]},
            {"runs": [{"name": "NaN", "tags": ["NaN"], "summary": {"loss": INF}}]},
        ),
        ("/debug/cosine_matrix", {"matrix": [["Infinity", 1.0]]}, {"matrix": [[INF, 1.0]]}),
        ("/debug/step_data/force_detail", {"combined": ["Infinity"]}, {"combined": [INF]}),
        ("/no/such/route", {"loss": "Infinity"}, {"loss": "Infinity"}),
    ],
)
def test_only_number_fields_of_the_route_are_converted(path, response, expected):
    assert convert_numbers("GET", path, response) == expected


def test_pointers_convert_numbers_without_a_schema():
    response = {
        "data": {"a/b": "Infinity", "words": "NaN", "rows": [["NaN", 1.0], ["Infinity", 2.0]]},
        "nonfinite": ["/data/a~1b", "/data/rows"],
    }
    data = convert_numbers("GET", "/debug/step_data/layers", response)["data"]
    assert data["a/b"] == INF
    assert data["words"] == "NaN"
    assert math.isnan(data["rows"][0][0])
    assert data["rows"][1] == [INF, 2.0]


def test_every_route_with_numbers_is_listed_once():
    assert NUMBER_PATHS["GET /api/v1/runs/{run_id}/debug/state"] == [
        "/breakpoint/limit",
        "/breakpoint/value",
        "/loss",
        "/lr",
        "/repeated/recorded",
        "/repeated/repeated",
    ]
    assert not [route for route in NUMBER_PATHS if " /debug" in route]


ODD = {"words": "NaN", "value": NAN, "rows": torch.tensor([INF, 1.0])}


def test_step_data_and_results_arrive_as_the_run_gave_them(client, served):
    def show(_payload):
        served.controller.captures.add_step_data("odd", ODD)
        return {"loss": -INF, "words": "NaN"}

    served.controller.queue.register(CommandDefinition(name="show_odd", help="Odd values."), show)
    client.step(1)
    record = client.command("show_odd")
    assert record["result"] == {"loss": -INF, "words": "NaN"}
    assert record["nonfinite"] == ["/result/loss"]
    assert client.commands()[-1]["result"]["loss"] == -INF
    data = client.step_data("odd")["data"]
    assert data["words"] == "NaN"
    assert math.isnan(data["value"])
    assert data["rows"] == [INF, 1.0]


def test_finite_responses_carry_no_pointers(client):
    assert "nonfinite" not in client.commands()[-1]

"""The server's OpenAPI document loses nothing of what it had when the golden copy was made."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from midstep.server.openapi import text
from tests.golden.openapi_compare import losses

GOLDEN = Path(__file__).parent / "openapi.json"
STATE = "/api/v1/runs/{run_id}/debug/state"
STEP = "/api/v1/runs/{run_id}/debug/step"


def test_the_present_document_loses_nothing_of_the_golden_one():
    assert losses(json.loads(GOLDEN.read_text()), json.loads(text())) == []


# -- the comparison itself, on real documents -----------------------------------------------------


@pytest.fixture
def golden() -> dict[str, Any]:
    return dict(json.loads(GOLDEN.read_text()))


@pytest.fixture
def changed(golden) -> dict[str, Any]:
    return copy.deepcopy(golden)


def operation(document, path, method="get"):
    return document["paths"][path][method]


def schema(document, name):
    return document["components"]["schemas"][name]


def test_a_document_loses_nothing_to_itself(golden):
    assert losses(golden, golden) == []


def test_a_removed_path_is_a_loss(golden, changed):
    del changed["paths"][STATE]
    assert losses(golden, changed) == [f"GET {STATE}: removed"]


def test_a_removed_method_is_a_loss(golden, changed):
    del changed["paths"]["/api/v1/runs/{run_id}"]["patch"]
    assert losses(golden, changed) == ["PATCH /api/v1/runs/{run_id}: removed"]


def test_a_removed_status_is_a_loss(golden, changed):
    del operation(changed, STEP, "post")["responses"]["202"]
    assert losses(golden, changed) == [f"POST {STEP} -> 202: status removed"]


def test_a_removed_media_type_is_a_loss(golden, changed):
    del operation(changed, "/debug/batch")["responses"]["200"]["content"][
        "application/octet-stream"
    ]
    (lost,) = losses(golden, changed)
    assert lost == "GET /debug/batch -> 200: media type application/octet-stream removed"


def test_a_field_removed_from_a_response_is_a_loss_wherever_it_is_sent(golden, changed):
    state = schema(changed, "StateOut")
    del state["properties"]["offers"]
    state["required"].remove("offers")
    lost = losses(golden, changed)
    assert f"GET {STATE} -> 200.offers: removed" in lost
    assert any(line.startswith("GET /api/v1/stream") for line in lost)


def test_a_field_that_is_no_longer_always_sent_is_a_loss(golden, changed):
    schema(changed, "StateOut")["required"].remove("step")
    assert f"GET {STATE} -> 200.step: no longer always sent" in losses(golden, changed)


def test_another_type_of_a_response_field_is_a_loss(golden, changed):
    schema(changed, "StateOut")["properties"]["step"] = {"type": "string"}
    assert f"GET {STATE} -> 200.step: type integer became string" in losses(golden, changed)


def test_a_response_field_that_may_be_null_now_is_a_loss(golden, changed):
    step = schema(changed, "StateOut")["properties"]["step"]
    schema(changed, "StateOut")["properties"]["step"] = {"anyOf": [step, {"type": "null"}]}
    assert f"GET {STATE} -> 200.step: may be null now" in losses(golden, changed)


def test_a_removed_kind_of_stream_message_is_a_loss(golden, changed):
    kinds = schema(changed, "StreamMessage")["oneOf"]
    kinds.remove({"$ref": "#/components/schemas/CommandMessage"})
    assert any("/api/v1/stream" in line and "command" in line for line in losses(golden, changed))


def test_a_removed_model_that_no_route_names_is_a_loss(golden, changed):
    del schema(changed, "TensorSummary")["properties"]["shape"]
    assert losses(golden, changed) == ["model TensorSummary.shape: removed"]


def test_a_removed_parameter_is_a_loss(golden, changed):
    parameters = operation(changed, "/debug/trajectories")["parameters"]
    del parameters[0]
    assert losses(golden, changed) == ["GET /debug/trajectories query parameter points: removed"]


def test_a_new_required_parameter_is_a_loss(golden, changed):
    new = {"name": "why", "in": "query", "required": True, "schema": {"type": "string"}}
    operation(changed, "/debug/state").setdefault("parameters", []).append(new)
    assert losses(golden, changed) == ["GET /debug/state query parameter why: new and required"]


@pytest.mark.parametrize(("bound", "value"), [("maximum", 100), ("minimum", 3)])
def test_a_narrower_bound_of_a_parameter_is_a_loss(golden, changed, bound, value):
    operation(changed, "/debug/trajectories")["parameters"][0]["schema"][bound] = value
    (lost,) = losses(golden, changed)
    assert f"{bound} " in lost
    assert lost.endswith(f"became {value}")


def test_another_default_of_a_parameter_is_a_loss(golden, changed):
    operation(changed, "/debug/trajectories")["parameters"][0]["schema"]["default"] = 5
    assert losses(golden, changed) == [
        "GET /debug/trajectories query parameter points: default 2000 became 5"
    ]


def body(document, path=STEP):
    content = operation(document, path, "post")["requestBody"]["content"]["application/json"]
    reference = next(each["$ref"] for each in content["schema"]["anyOf"] if "$ref" in each)
    return schema(document, reference.rpartition("/")[2])


def test_a_new_required_field_of_a_request_is_a_loss(golden, changed):
    model = body(changed)
    model["properties"]["reason"] = {"type": "string"}
    model.setdefault("required", []).append("reason")
    assert f"POST {STEP} body.reason: required now" in losses(golden, changed)


def test_a_removed_field_of_a_request_is_a_loss(golden, changed):
    del body(changed)["properties"]["n"]
    assert f"POST {STEP} body.n: removed" in losses(golden, changed)


def test_a_narrowed_bound_of_a_request_is_a_loss(golden, changed):
    body(changed)["properties"]["n"]["maximum"] = 3
    assert any(
        line.startswith(f"POST {STEP} body.n: maximum") and line.endswith("became 3")
        for line in losses(golden, changed)
    )


def test_a_bound_of_a_union_counts_under_the_name_that_pydantic_gives_it(golden, changed):
    limit = schema(changed, "LossZCondition")["properties"]["limit"]
    limit["gt"] = 1
    lost = losses(golden, changed)
    assert lost
    assert all("exclusiveMinimum 0 became 1" in line for line in lost)


def test_a_narrower_type_of_a_request_is_a_loss(golden, changed):
    body(changed)["properties"]["id"] = {"type": "integer"}
    lost = losses(golden, changed)
    assert f"POST {STEP} body.id: type string became integer" in lost
    assert f"POST {STEP} body.id: type null became integer" in lost


def test_a_removed_choice_of_a_request_is_a_loss(golden, changed):
    parameter = next(
        each
        for each in operation(changed, "/debug/cosine_matrix")["parameters"]
        if each["name"] == "source"
    )
    parameter["schema"]["enum"].remove("grad_delta")
    assert losses(golden, changed) == [
        "GET /debug/cosine_matrix query parameter source: value 'grad_delta' removed"
    ]


def test_a_free_form_payload_that_is_restricted_now_is_a_loss(golden, changed):
    path = "/api/v1/runs/{run_id}/commands"
    schema(changed, "CommandIn")["properties"]["payload"]["additionalProperties"] = False
    assert losses(golden, changed) == [
        f"POST {path} body.payload: additional properties are refused now"
    ]


def test_a_token_asked_for_where_none_was_needed_is_a_loss(golden, changed):
    del operation(changed, "/api/v1/health")["security"]
    (lost,) = losses(golden, changed)
    assert lost.startswith("GET /api/v1/health: security")


def test_additions_and_other_names_of_models_are_no_loss(golden, changed):
    body(changed)["properties"]["why"] = {"type": "string", "default": ""}
    body(changed)["properties"]["n"].pop("maximum", None)
    schema(changed, "StateOut")["properties"]["mood"] = {"type": "string"}
    schema(changed, "StateOut")["required"].append("mood")
    changed["paths"]["/api/v1/new"] = {"get": {"responses": {}}}
    operation(changed, "/debug/state")["responses"]["404"] = {}
    renamed = json.loads(json.dumps(changed).replace("schemas/CommandIn", "schemas/AskedCommand"))
    models = renamed["components"]["schemas"]
    models["AskedCommand"] = models.pop("CommandIn")
    assert losses(golden, renamed) == []


def test_a_union_that_still_accepts_everything_is_no_loss(golden, changed):
    """As when known commands get typed payloads, and all others stay free-form."""
    models = changed["components"]["schemas"]
    free = models.pop("CommandIn")
    step = {"type": "object", "properties": {"command": {"const": "step", "type": "string"}}}
    models["CommandIn"] = {"anyOf": [step, {"$ref": "#/components/schemas/Free"}]}
    models["Free"] = free
    assert losses(golden, changed) == []


def test_models_that_contain_themselves_are_compared(golden, changed):
    for document in (golden, changed):
        tree = {"$ref": "#/components/schemas/Tree"}
        schema(document, "StateOut")["properties"]["tree"] = tree
        document["components"]["schemas"]["Tree"] = {
            "type": "object",
            "properties": {"name": {"type": "string"}, "parts": {"type": "array", "items": tree}},
        }
    assert losses(golden, changed) == []
    del schema(changed, "Tree")["properties"]["name"]
    assert f"GET {STATE} -> 200.tree.name: removed" in losses(golden, changed)


def test_a_keyword_that_is_not_compared_is_refused(golden, changed):
    body(changed)["properties"]["n"]["multipleOfPrimes"] = True
    with pytest.raises(ValueError, match="multipleOfPrimes"):
        losses(golden, changed)

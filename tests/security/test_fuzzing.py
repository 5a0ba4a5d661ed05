"""Schemathesis over every operation of the OpenAPI document: no 500, answers as documented."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pytest
import requests
import schemathesis
import torch
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from midstep.server.app import create_app
from midstep.server.auth.guard import GuardConfig
from midstep.server.auth.tokens import Tokens
from midstep.server.datasets.data_roots import DataRoots
from midstep.server.debug import command_routes
from midstep.server.runs.run_table import RunTable
from tests.control.loop import IN_VIEW
from tests.served import Served, serving, train
from tests.server.datasets import store_dataset

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
EXAMPLES, SOAK_EXAMPLES = 10, 50
SHORT_FORM_EXAMPLES = 4
"""Short forms share their handlers with the long; what is their own is the way to the run."""
TAKES_NOTHING = (
    "GET /api/v1/health",
    "GET /api/v1/runs",
)
ENDLESS = "GET /api/v1/stream"


@cache
def document() -> dict:
    return create_app(RunTable(), guard=GuardConfig(tokens=Tokens.fresh())).openapi()


@cache
def labels() -> list[str]:
    """Every operation but the endless one, short forms too."""
    return sorted(
        f"{method.upper()} {path}"
        for path, operations in document()["paths"].items()
        for method in operations
        if f"{method.upper()} {path}" != ENDLESS
    )


def short_loop(run) -> None:
    """Three watched steps, so that there is a batch and step data; then nobody obeys."""
    with run.controller.captures.viewer(*IN_VIEW):
        run.controller.capture_step_data("warm", torch.ones(3))
        train(run, 3)


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    waited = command_routes.EFFECT_WAIT_S
    command_routes.EFFECT_WAIT_S = 0.01
    try:
        folder = store_dataset(tmp_path_factory.mktemp("data") / "small")
        place, roots = tmp_path_factory.mktemp("fuzz"), DataRoots(folder.parent)
        with serving(place, paused=False, loop=short_loop, datasets=roots) as made:
            yield made
    finally:
        command_routes.EFFECT_WAIT_S = waited


@pytest.fixture(scope="module")
def operations(fuzzed: Served) -> dict:
    schema = schemathesis.openapi.from_dict(document())
    return {found.ok().label: found.ok() for found in schema.get_all_operations()}


@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.value)
@pytest.mark.parametrize("label", labels())
def test_no_request_makes_a_500_or_an_undocumented_answer(fuzzed, operations, label, mode):
    is_short_form = label.split()[1].startswith("/debug")
    examples = SHORT_FORM_EXAMPLES if is_short_form else EXAMPLES
    send_generated(fuzzed, operations, label, mode, examples)


@pytest.mark.soak
@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.value)
@pytest.mark.parametrize("label", labels())
def test_of_many_requests_none_makes_a_500_or_an_undocumented_answer(
    fuzzed, operations, label, mode, record_property
):
    sent = send_generated(fuzzed, operations, label, mode, SOAK_EXAMPLES)
    record_property("count", f"{sent} generated requests, each with a documented answer")


def send_generated(
    fuzzed: Served, operations: dict, label: str, mode: GenerationMode, examples: int
) -> int:
    """Send requests to one operation, and check each answer; returns how many were sent."""
    operation = operations[label]
    known = {"run_id": fuzzed.run.run_id, "dataset_id": "small"}
    path = {name: value for name, value in known.items() if f"{{{name}}}" in label}
    headers = {"Authorization": f"Bearer {fuzzed.tokens.control}"}

    sent = 0
    with requests.Session() as session:

        @settings(
            max_examples=examples,
            derandomize=True,
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(generation_mode=mode))
        def check(case):
            nonlocal sent
            sent += 1
            case.path_parameters = {**(case.path_parameters or {}), **path}
            case.headers = {**(case.headers or {}), **headers}
            response = case.call(base_url=fuzzed.url, session=session)
            case.validate_response(response, checks=CHECKS)

        try:
            check()
        except Unsatisfiable:  # an operation that takes nothing cannot be given anything wrong
            assert mode is GenerationMode.NEGATIVE
            assert label in TAKES_NOTHING
    return sent

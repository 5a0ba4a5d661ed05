"""Definitions of commands: they cover every command, and a wrong payload is refused by field."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any, Literal, is_typeddict

import pytest

from midstep.core.commands.catalog import (
    BACK,
    COMMANDS,
    DETERMINISM_HEALTH,
    INFLUENCE,
    LOAD_CHECKPOINT,
    PAUSE,
    RUN_UNTIL,
    SET_HPARAMS,
    STEP,
    BackPayload,
)
from midstep.core.commands.definition import CommandDefinition, Least
from midstep.core.errors import ConfigError

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "commands.json").read_text())
BY_NAME = {name: each for each in COMMANDS.values() for name in each.names}


@pytest.mark.parametrize("kind", ["attach", "session"])
def test_every_command_of_a_run_is_defined_with_its_fields(kind):
    for name, fields in GOLDEN[kind]["commands"].items():
        assert set(BY_NAME[name].fields) == set(fields)


@pytest.mark.parametrize("kind", ["attach", "session"])
def test_every_field_of_a_result_is_declared(kind):
    for example in GOLDEN[kind]["examples"]:
        result, declared = example["result"], BY_NAME[example["command"]].result
        if result == "NoneType":
            assert declared is None
        elif is_typeddict(declared):
            assert declared.__required_keys__ <= set(result)
            assert set(result) <= declared.__required_keys__ | declared.__optional_keys__
        else:
            assert declared == dict[str, float]


@pytest.mark.parametrize("kind", ["attach", "session"])
def test_every_golden_payload_is_valid(kind):
    for example in GOLDEN[kind]["examples"]:
        BY_NAME[example["command"]].parse(example["payload"])


@pytest.mark.parametrize(
    ("definition", "given", "message"),
    [
        (PAUSE, {"n": 1}, "pause has no field 'n'; it takes no fields"),
        (STEP, {"m": 1}, "step has no field 'm'; its fields are n"),
        (STEP, {"n": 0}, "n must be a whole number from 1 to 1,000,000,000, got 0"),
        (STEP, {"n": True}, "n must be a whole number from 1 to 1,000,000,000, got True"),
        (STEP, {"n": 2.0}, "n must be a whole number from 1 to 1,000,000,000, got 2.0"),
        (STEP, {"n": None}, "n must be a whole number from 1 to 1,000,000,000, got None"),
        (RUN_UNTIL, {}, "run_until needs the field step: a whole number from 0 to"),
        (BACK, {"n": 1, "step": 2}, "back needs n=… or step=…, not both"),
        (BACK, {"step": -1}, "step must be a whole number from 0 to"),
        (LOAD_CHECKPOINT, {"step": "x"}, "step must be a whole number of at least 0, got 'x'"),
        (INFLUENCE, {"samples": 513}, "samples must be a whole number from 1 to 512, got 513"),
        (DETERMINISM_HEALTH, {"steps": 0}, "steps must be a whole number from 1 to 10,000, got 0"),
        (SET_HPARAMS, {}, "set_hparams needs one of lr, weight_decay"),
        (SET_HPARAMS, {"lr": -1}, "lr must be a finite number of at least 0, got -1"),
        (SET_HPARAMS, {"lr": float("inf")}, "lr must be a finite number of at least 0, got inf"),
        (SET_HPARAMS, {"lr": 1, "lr_mul": 2}, "give lr or lr_mul, not both"),
        (SET_HPARAMS, {"betas": [0.9, 1]}, "betas must be 2 values, each a finite number"),
        (SET_HPARAMS, {"betas": [0.9]}, "of at least 0 and below 1, got [0.9]"),
    ],
)
def test_a_wrong_payload_names_the_field_what_is_expected_and_what_was_given(
    definition, given, message
):
    with pytest.raises(ConfigError) as raised:
        definition.parse(given)
    assert message in str(raised.value)


def test_a_list_becomes_the_tuple_that_the_payload_declares():
    assert SET_HPARAMS.parse({"betas": [0.8, 0.9]}).betas == (0.8, 0.9)


def test_none_is_a_value_where_the_type_says_so():
    assert BACK.parse({"n": None, "step": 3}) == BackPayload(step=3)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScanPayload:
    """A payload of a plug-in."""

    kind: Literal["rows", "columns"] = "rows"
    deep: bool = False
    title: Annotated[str, "free text"] = ""
    width: Annotated[float, Least(0.5)] = 1.0
    rest: Any = None


SCAN = CommandDefinition(name="scan", payload=ScanPayload, help="Scan.")


def test_other_types_are_checked_too():
    given = {"kind": "columns", "deep": True, "title": "x", "width": 2, "rest": [1]}
    assert SCAN.parse(given) == ScanPayload(**given)
    for name, value in {"kind": "cells", "deep": 1, "title": 3, "width": 0.1}.items():
        with pytest.raises(ConfigError, match=f"{name} must be"):
            SCAN.parse({name: value})


def test_a_payload_must_be_a_dataclass():
    with pytest.raises(ConfigError, match="must be a dataclass"):
        CommandDefinition(name="scan", payload=dict, help="Scan.")


def test_the_definitions_load_neither_torch_nor_pydantic():
    code = "import sys, midstep.core.commands.catalog; print({'torch','pydantic'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"

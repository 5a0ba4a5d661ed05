from __future__ import annotations

import json
from pathlib import Path
from typing import get_args

from midstep.server.openapi import text
from midstep.server.stream.stream_routes import StreamMessage

CHECKED_IN = Path(__file__).parents[2] / "dashboard" / "src" / "api" / "openapi.json"


def test_document_is_deterministic():
    assert text() == text()


def test_checked_in_document_is_current():
    assert CHECKED_IN.read_text() == text(), (
        "run: python -m midstep.server.openapi > dashboard/src/api/openapi.json"
    )


def test_stream_messages_are_a_tagged_union_in_the_document():
    schemas = json.loads(text())["components"]["schemas"]
    kinds = {model.model_fields["type"].default for model in get_args(get_args(StreamMessage)[0])}
    assert set(schemas["StreamMessage"]["discriminator"]["mapping"]) == kinds
    assert "type" in schemas["HelloMessage"]["required"]


def test_every_operation_has_its_own_name_and_says_how_it_refuses():
    operations = [
        operation for path in json.loads(text())["paths"].values() for operation in path.values()
    ]
    names = [operation["operationId"] for operation in operations]
    assert len(set(names)) == len(names)
    assert all("default" in operation["responses"] for operation in operations)


def test_no_token_and_no_path_of_this_machine_is_in_the_document():
    assert str(Path.home()) not in text()
    assert str(CHECKED_IN.parents[3]) not in text()

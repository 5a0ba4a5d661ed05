"""The OpenAPI document: `python -m midstep.server.openapi` prints it, always in the same order."""

from __future__ import annotations

import json
import sys
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import models_json_schema

from midstep.core.commands.catalog import COMMANDS
from midstep.server.debug.command_schemas import command_model
from midstep.server.schema_base import Out
from midstep.server.step_views.step_schemas import TensorSummary

REFERENCE = "#/components/schemas/{model}"
SENT_IF_ANY = {"nonfinite"}
"""Fields that a response leaves out when they are empty."""


def document(app: FastAPI) -> dict[str, Any]:
    """Return the document of `app`, with the stream messages and the payloads of commands."""
    if app.openapi_schema is None:
        schema = get_openapi(title=app.title, version=app.version, routes=app.routes)
        _name_stream_message(schema)
        _name_commands(schema)
        _require_response_fields(schema)
        _declare_token(schema)
        app.openapi_schema = schema
    return app.openapi_schema


def _name_stream_message(document: dict[str, Any]) -> None:
    """Let `StreamMessage`, a tagged union, be the data of each event of the stream."""
    schemas = document["components"]["schemas"]
    schemas["StreamMessage"] = schemas.pop("StreamEnvelope") | {"title": "StreamMessage"}
    # No route refers to it: it occurs inside `StepDataOut.data`, which has no schema.
    schemas["TensorSummary"] = TensorSummary.model_json_schema(mode="serialization")
    response = document["paths"]["/api/v1/stream"]["get"]["responses"]["200"]
    response["content"] = {
        "text/event-stream": {"schema": {"$ref": "#/components/schemas/StreamMessage"}}
    }


def _name_commands(document: dict[str, Any]) -> None:
    """Let `CommandIn` be a union: every known command with its payload, or any other command."""
    schemas = document["components"]["schemas"]
    models = [command_model(each) for each in COMMANDS.values()]
    _, definitions = models_json_schema(
        [(model, "validation") for model in models], ref_template=REFERENCE
    )
    for name, schema in definitions["$defs"].items():
        for field in schema.get("properties", {}).values():
            # As FastAPI does: openapi-typescript takes a field with a default as always given.
            if "default" in field and field["default"] is None:
                del field["default"]
        schemas[name] = schema
    schemas["AnyCommandIn"] = schemas["CommandIn"] | {"title": "AnyCommandIn"}
    names = [*(model.__name__ for model in models), "AnyCommandIn"]
    schemas["CommandIn"] = {
        "title": "CommandIn",
        "anyOf": [{"$ref": REFERENCE.format(model=name)} for name in names],
    }


def _require_response_fields(document: dict[str, Any]) -> None:
    """Declare that a response has all its fields, also those with a default."""
    for model in _all_subclasses(Out):
        schema = document["components"]["schemas"].get(model.__name__)
        if schema is not None and schema.get("properties"):
            left_out = {
                name
                for name in SENT_IF_ANY & schema["properties"].keys()
                if "default" in schema["properties"][name]
            }
            schema["required"] = sorted(set(schema["properties"]) - left_out)
            for name in left_out:
                # openapi-typescript takes a field with a default as always present.
                del schema["properties"][name]["default"]


def _all_subclasses(model: type[Out]) -> list[type[Out]]:
    return [each for sub in model.__subclasses__() for each in (sub, *_all_subclasses(sub))]


def _declare_token(document: dict[str, Any]) -> None:
    """Declare that every route except the health check needs the bearer token."""
    document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    document["security"] = [{"token": []}]
    document["paths"]["/api/v1/health"]["get"]["security"] = []


def text() -> str:
    """Return the document as it is checked in."""
    from midstep.server.app import create_app
    from midstep.server.auth.guard import GuardConfig
    from midstep.server.auth.tokens import Tokens
    from midstep.server.runs.run_table import RunTable

    app = create_app(RunTable(), guard=GuardConfig(tokens=Tokens.fresh()))
    return json.dumps(document(app), indent=2, sort_keys=True, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.stdout.write(text())

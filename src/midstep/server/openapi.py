"""The OpenAPI document, deterministic: `python -m midstep.server.openapi`."""

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


def install(app: FastAPI) -> None:
    """Let `app.openapi()` give our document; nothing serves it without a token."""
    app.openapi = lambda: document(app)  # type: ignore[method-assign]


def document(app: FastAPI) -> dict[str, Any]:
    """The document of `app`, stream messages included."""
    if app.openapi_schema is None:
        made = get_openapi(title=app.title, version=app.version, routes=app.routes)
        _name_stream_message(made)
        _name_commands(made)
        _require_all_that_leaves(made)
        _declare_token(made)
        app.openapi_schema = made
    return app.openapi_schema


def _name_stream_message(made: dict[str, Any]) -> None:
    """`StreamMessage`, the tagged union, is what each event's data holds."""
    schemas = made["components"]["schemas"]
    schemas["StreamMessage"] = schemas.pop("StreamEnvelope") | {"title": "StreamMessage"}
    # It stands inside `StepDataOut.data`, which is any value, so no route names it.
    schemas["TensorSummary"] = TensorSummary.model_json_schema(mode="serialization")
    answer = made["paths"]["/api/v1/stream"]["get"]["responses"]["200"]
    answer["content"] = {
        "text/event-stream": {"schema": {"$ref": "#/components/schemas/StreamMessage"}}
    }


def _name_commands(document: dict[str, Any]) -> None:
    """Let `CommandIn` be a union: every known command with its payload, or any other command."""
    schemas = document["components"]["schemas"]
    models = [command_model(each) for each in COMMANDS.values()]
    _, definitions = models_json_schema(
        [(model, "validation") for model in models], ref_template=REFERENCE
    )
    schemas.update(definitions["$defs"])
    schemas["AnyCommandIn"] = schemas["CommandIn"] | {"title": "AnyCommandIn"}
    names = [*(model.__name__ for model in models), "AnyCommandIn"]
    schemas["CommandIn"] = {
        "title": "CommandIn",
        "anyOf": [{"$ref": REFERENCE.format(model=name)} for name in names],
    }


def _require_all_that_leaves(made: dict[str, Any]) -> None:
    """Answers always carry all their fields, also those that have a default."""
    for model in _all_subclasses(Out):
        schema = made["components"]["schemas"].get(model.__name__)
        if schema is not None and schema.get("properties"):
            schema["required"] = sorted(schema["properties"])


def _all_subclasses(model: type[Out]) -> list[type[Out]]:
    return [each for sub in model.__subclasses__() for each in (sub, *_all_subclasses(sub))]


def _declare_token(made: dict[str, Any]) -> None:
    """Everything but the health answer needs the bearer token."""
    made["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    made["security"] = [{"token": []}]
    made["paths"]["/api/v1/health"]["get"]["security"] = []


def text() -> str:
    """The document as it is checked in."""
    from midstep.server.app import create_app
    from midstep.server.auth.guard import GuardConfig
    from midstep.server.auth.tokens import Tokens
    from midstep.server.runs.run_table import RunTable

    app = create_app(RunTable(), guard=GuardConfig(tokens=Tokens.fresh()))
    return json.dumps(document(app), indent=2, sort_keys=True, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.stdout.write(text())

"""The page of all HTTP routes, from the OpenAPI document."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from tools.references import markdown

from midstep.server import openapi

PREFIX = "/api/v1"
OF_A_RUN = f"{PREFIX}/runs/{{run_id}}/debug"
GROUPS = {
    "health": "Health",
    "runs": "Runs",
    "debug": "One run: control and step data",
    "commands": "One run: commands",
    "stream": "The stream",
    "recipes": "Recipes",
    "sweeps": "Sweeps",
    "datasets": "Datasets",
    "influence": "Influence",
}
"""Tags of the document with the title of their section; the others are short forms."""

ABOUT = f"""Every route of a server, from its OpenAPI document. `python -m midstep.server.openapi`
prints that document, which has the exact type of every field. All routes but
`{PREFIX}/health` need the token: `Authorization: Bearer TOKEN`. Bodies are strict JSON, in which
NaN and the infinities are the strings `"NaN"`, `"Infinity"` and `"-Infinity"`. An error is a
`Problem` with its reason.

The routes under `{OF_A_RUN}` also exist as `/debug/…` for the server of a single run.
[Captures and requests](captures.md) explains what a viewer receives, and how to ask for several
things at once."""
REFERENCE = '"#/components/schemas/{}"'
NAMED = re.compile(REFERENCE.format(r"(\w+)"))
LITERALS = {'"NaN"', '"Infinity"', '"-Infinity"'}


def page() -> str:
    """The page as Markdown."""
    document = json.loads(openapi.text())
    routes = _Routes(document["components"]["schemas"])
    lines = [
        line
        for tag, title in GROUPS.items()
        for line in [f"## {title}", "", *routes.of(tag, document["paths"])]
    ]
    lines += ["## Objects", "", "The fields of each JSON object.", "", *routes.objects()]
    return markdown.page("HTTP routes", ABOUT, lines)


class _Routes:
    """Writes routes; knows the schemas that they name."""

    def __init__(self, schemas: dict[str, Any]) -> None:
        self._schemas = schemas
        self._sent: set[str] = set()

    def of(self, tag: str, paths: dict[str, Any]) -> Iterator[str]:
        """The routes with this tag."""
        for path, operations in paths.items():
            for method, operation in operations.items():
                if tag in operation["tags"]:
                    yield from self._route(method.upper(), path, operation)

    def _route(self, method: str, path: str, operation: dict[str, Any]) -> Iterator[str]:
        yield from [f"### {method} {path}", "", _paragraphs(operation["description"]), ""]
        parameters = [each for each in operation.get("parameters", []) if each["in"] != "path"]
        rows = [
            (
                markdown.code(each["name"]) + (" (header)" if each["in"] == "header" else ""),
                _type(each["schema"]),
                each.get("description", ""),
                _default(each["schema"], is_required=each.get("required", False)),
            )
            for each in parameters
        ]
        yield from markdown.table(["parameter", "type", "meaning", "default"], rows)
        if body := operation.get("requestBody"):
            yield from self._body(body["content"]["application/json"]["schema"])
        for status, response in operation["responses"].items():
            if status != "default":
                yield f"- {status}: {self._answer(response)}"
        yield ""

    def _body(self, body: dict[str, Any]) -> Iterator[str]:
        """The fields of a request, or the names of a union."""
        self._sent.update(NAMED.findall(json.dumps(body)))
        inner = [each for each in body.get("anyOf", []) if each.get("type") != "null"]
        body = inner[0] if len(inner) == 1 else body
        schema = self._schemas[_name(body)] if "$ref" in body else body
        required = schema.get("required", [])
        rows = [
            (
                markdown.code(field),
                _type(about),
                about.get("description", ""),
                _default(about, is_required=field in required),
            )
            for field, about in schema.get("properties", {}).items()
        ]
        yield from markdown.table(["field of the body", "type", "meaning", "default"], rows)
        if not rows:
            yield from [f"Body: {_type(schema)}.", ""]

    def _answer(self, response: dict[str, Any]) -> str:
        described = response["description"]
        own = "" if described in {"Successful Response", ""} else described.rstrip(".")
        sent = [
            self._content(kind, content.get("schema", {}))
            for kind, content in response.get("content", {}).items()
        ]
        return (": ".join(part for part in (own, ", or ".join(sent)) if part) or "no content") + "."

    def _content(self, kind: str, schema: dict[str, Any]) -> str:
        """The name of a JSON object, or the kind of any other content."""
        inner = schema.get("items", schema)
        if "$ref" not in inner:
            return markdown.code(kind)
        self._sent.add(_name(inner))
        return ("" if inner is schema else "list of ") + _type(inner)

    def objects(self) -> Iterator[str]:
        """The objects that the routes send and receive, by name, each with its fields."""
        for name in sorted(self._reached()):
            schema = self._schemas[name]
            fields = ", ".join(map(markdown.code, schema.get("properties", {})))
            about = _paragraphs(schema.get("description", ""))
            yield from [f"### {name}", "", about, "", fields or _type(schema), ""]

    def _reached(self) -> set[str]:
        """Names of the objects, and of those that are inside of them."""
        reached: set[str] = set()
        waiting = {REFERENCE.format(name) for name in self._sent}
        while waiting:
            text = waiting.pop()
            for name in NAMED.findall(text):
                if name not in reached:
                    reached.add(name)
                    waiting.add(json.dumps(self._schemas[name]))
        return reached


def _name(reference: dict[str, Any]) -> str:
    return str(reference["$ref"].rpartition("/")[2])


def _type(schema: dict[str, Any]) -> str:
    """The type of a value in words."""
    if "$ref" in schema:
        return f"[{_name(schema)}](#{_name(schema).lower()})"
    if "const" in schema:
        return markdown.code(json.dumps(schema["const"]))
    if "enum" in schema:
        return ", ".join(markdown.code(json.dumps(each)) for each in schema["enum"])
    parts = schema.get("anyOf") or schema.get("oneOf")
    if parts:
        return " or ".join(dict.fromkeys(filter(None, map(_type_but_nan, parts))))
    return _plain_type(schema)


def _type_but_nan(schema: dict[str, Any]) -> str:
    """Nothing for the words that stand for NaN: every number may be one of them."""
    is_nan = {json.dumps(each) for each in schema.get("enum", [])} == LITERALS
    return "" if is_nan else _type(schema)


def _plain_type(schema: dict[str, Any]) -> str:
    kind = schema.get("type", "any")
    if kind == "array":
        if "prefixItems" in schema:
            return f"list of {', '.join(_type(each) for each in schema['prefixItems'])}"
        return f"list of {_type(schema.get('items', {}))}"
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"object of {_type(schema['additionalProperties'])}"
    return f"{kind}{_limits(schema)}"


def _limits(schema: dict[str, Any]) -> str:
    words = {
        "minimum": "≥",
        "exclusiveMinimum": ">",
        "maximum": "≤",
        "exclusiveMaximum": "<",
        "maxLength": "at most",
    }
    said = [f"{word} {schema[key]:.10g}" for key, word in words.items() if key in schema]
    return f" ({', '.join(said)})" if said else ""


def _default(schema: dict[str, Any], *, is_required: bool) -> str:
    if is_required or schema.get("default") is None:
        return ""
    return markdown.code(json.dumps(schema["default"], ensure_ascii=False))


def _paragraphs(text: str) -> str:
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))

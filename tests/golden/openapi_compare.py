"""Compare two OpenAPI documents: what the later one loses for clients of the earlier one.

`losses(old, new)` gives one line per loss; an empty list means that every client of the old
document still works. References are resolved, so names of models do not matter. Requests and
responses are compared in opposite directions:

- A request that the old document accepts must be accepted by the new one: no new required field,
  no removed property, no narrower type, bound, pattern or enum, no other default.
- A response keeps every property, and every property that was always sent is still always sent.
  New properties, enum values and alternatives are additions, and allowed.

An unknown schema keyword raises `ValueError`: a constraint is never ignored by accident.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

__all__ = ["losses"]

Schema = Mapping[str, Any]
Pairs = frozenset[tuple[str, str]]
"""References that are being compared further up; a model may contain itself."""

ANNOTATIONS = {"title", "description", "examples", "discriminator", "deprecated"}
LOWER = {"minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"}
UPPER = {"maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"}
PYDANTIC_BOUNDS = {
    "gt": "exclusiveMinimum",
    "ge": "minimum",
    "lt": "exclusiveMaximum",
    "le": "maximum",
}
"""Pydantic writes the bounds of a union under its own names."""
SAME = {"pattern", "format", "multipleOf", "uniqueItems", "contentMediaType"}
"""Constraints that cannot be ordered: the new document has the same one, or none."""
STRUCTURE = {
    "type", "const", "enum", "properties", "required", "additionalProperties", "propertyNames",
    "items", "prefixItems", "anyOf", "oneOf", "$ref", "default",
}  # fmt: skip
KNOWN = ANNOTATIONS | LOWER | UPPER | PYDANTIC_BOUNDS.keys() | SAME | STRUCTURE


def losses(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """What clients of `old` lose with `new`, one line each."""
    return _Comparison(old, new).all()


class _Comparison:
    """Walks two documents side by side."""

    def __init__(self, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
        self.old, self.new = old, new

    def all(self) -> list[str]:
        lost: list[str] = []
        for path, methods in self.old["paths"].items():
            for method, operation in methods.items():
                where = f"{method.upper()} {path}"
                later = self.new["paths"].get(path, {}).get(method)
                if later is None:
                    lost.append(f"{where}: removed")
                else:
                    lost += self._operation(where, operation, later)
        return lost + self._unreferenced()

    # -- operations -------------------------------------------------------------------------------

    def _operation(self, where: str, old: Schema, new: Schema) -> list[str]:
        lost = self._parameters(where, old, new)
        lost += self._body(f"{where} body", old.get("requestBody"), new.get("requestBody"))
        for status, answer in old["responses"].items():
            place = f"{where} -> {status}"
            if status not in new["responses"]:
                lost.append(f"{place}: status removed")
            else:
                later = new["responses"][status].get("content", {})
                lost += self._contents(place, answer.get("content", {}), later, self._keeps)
        secured = [op.get("security", doc.get("security")) for op, doc in self._with(old, new)]
        if secured[0] != secured[1]:
            lost.append(f"{where}: security was {secured[0]}, is {secured[1]}")
        return lost

    def _with(self, old: Schema, new: Schema) -> list[tuple[Schema, Mapping[str, Any]]]:
        return [(old, self.old), (new, self.new)]

    def _parameters(self, where: str, old: Schema, new: Schema) -> list[str]:
        before, after = _by_name(old), _by_name(new)
        lost = []
        for key, parameter in before.items():
            place = f"{where} {key[1]} parameter {key[0]}"
            later = after.get(key)
            if later is None:
                lost.append(f"{place}: removed")
                continue
            if later.get("required") and not parameter.get("required"):
                lost.append(f"{place}: required now")
            lost += self._accepts(place, parameter["schema"], later["schema"])
        for key in after.keys() - before.keys():
            if after[key].get("required"):
                lost.append(f"{where} {key[1]} parameter {key[0]}: new and required")
        return lost

    def _body(self, where: str, old: Schema | None, new: Schema | None) -> list[str]:
        if old is None:
            return [f"{where}: required now"] if new is not None and new.get("required") else []
        if new is None:
            return [f"{where}: removed"]
        lost = []
        if new.get("required") and not old.get("required"):
            lost.append(f"{where}: required now")
        return lost + self._contents(where, old["content"], new["content"], self._accepts)

    def _contents(
        self,
        where: str,
        old: Mapping[str, Schema],
        new: Mapping[str, Schema],
        compare: Callable[[str, Schema, Schema], list[str]],
    ) -> list[str]:
        lost = []
        for media, content in old.items():
            if media not in new:
                lost.append(f"{where}: media type {media} removed")
            else:
                lost += compare(where, content.get("schema", {}), new[media].get("schema", {}))
        return lost

    def _unreferenced(self) -> list[str]:
        """Models that no operation names describe values inside free-form fields of responses."""
        before = self.old.get("components", {}).get("schemas", {})
        after = self.new.get("components", {}).get("schemas", {})
        used: set[str] = set()
        waiting = list(_references(self.old["paths"]))
        while waiting:
            reference = waiting.pop()
            if reference not in used:
                used.add(reference)
                waiting += _references(_resolve(self.old, reference))
        lost = []
        for name in before:
            if f"#/components/schemas/{name}" in used:
                continue
            if name not in after:
                lost.append(f"model {name}: removed")
            else:
                lost += self._keeps(f"model {name}", before[name], after[name])
        return lost

    # -- schemas ----------------------------------------------------------------------------------

    def _accepts(
        self, where: str, old: Schema, new: Schema, above: Pairs = frozenset()
    ) -> list[str]:
        """Whether `new` accepts every value of the request schema `old`."""
        return self._alternatives(where, old, new, above, self._accepts_one)

    def _keeps(self, where: str, old: Schema, new: Schema, above: Pairs = frozenset()) -> list[str]:
        """Whether the response schema `new` still gives all that `old` promised."""
        lost = self._alternatives(where, old, new, above, self._keeps_one)
        before, after = _flat(self.old, old), _flat(self.new, new)
        if not any(map(_may_be_null, before)) and any(map(_may_be_null, after)):
            lost.append(f"{where}: may be null now")
        return lost

    def _alternatives(
        self,
        where: str,
        old: Schema,
        new: Schema,
        above: Pairs,
        compare: Callable[[str, Schema, Schema, Pairs], list[str]],
    ) -> list[str]:
        """Each alternative of `old` needs one of `new` that loses nothing."""
        pair = (str(old.get("$ref", "")), str(new.get("$ref", "")))
        if all(pair) and pair in above:
            return []
        inside = above | {pair} if all(pair) else above
        lost = []
        for each in _flat(self.old, old):
            attempts = [
                (other.get("type") != each.get("type"), compare(where, each, other, inside))
                for other in _flat(self.new, new)
            ]
            if all(problems for _, problems in attempts):
                # The alternative of the same type says best what changed.
                lost += min(attempts, key=lambda attempt: (attempt[0], len(attempt[1])))[1]
        return lost

    def _accepts_one(self, where: str, old: Schema, new: Schema, above: Pairs) -> list[str]:
        if "type" in new and old.get("type") not in _accepted_types(new["type"]):
            return [f"{where}: type {old.get('type', 'any')} became {new['type']}"]
        lost = list(_narrowed(where, old, new))
        if "default" in old and old["default"] != new.get("default"):
            lost.append(f"{where}: default {old['default']!r} became {new.get('default')!r}")
        lost += self._items(where, old, new, above, self._accepts)
        if old.get("type") == "object":
            required = set(new.get("required", ())) - set(old.get("required", ()))
            lost += [f"{where}.{name}: required now" for name in sorted(required)]
            lost += self._properties(where, old, new, above, self._accepts)
            lost += self._other_properties(where, old, new, above)
        return lost

    def _other_properties(self, where: str, old: Schema, new: Schema, above: Pairs) -> list[str]:
        """Properties without a name of their own, as in a free-form mapping."""
        before, after = (each.get("additionalProperties", True) for each in (old, new))
        lost = []
        if after is False and before is not False:
            lost.append(f"{where}: additional properties are refused now")
        elif isinstance(after, Mapping) and before is not False:
            given = before if isinstance(before, Mapping) else {}
            lost += self._accepts(f"{where}.*", given, after, above)
        if "propertyNames" in new:
            names = {"type": "string", **old.get("propertyNames", {})}
            later = {"type": "string", **new["propertyNames"]}
            lost += self._accepts(f"{where} names", names, later, above)
        return lost

    def _keeps_one(self, where: str, old: Schema, new: Schema, above: Pairs) -> list[str]:
        if "type" in old and old["type"] != new.get("type"):
            return [f"{where}: type {old['type']} became {new.get('type', 'any')}"]
        lost = []
        before, after = _values(old), _values(new)
        if before is not None:
            missing = [value for value in before if value not in (after or [])]
            lost += [f"{where}: value {value!r} removed" for value in missing]
        lost += self._items(where, old, new, above, self._keeps)
        if old.get("type") == "object":
            optional = set(old.get("required", ())) - set(new.get("required", ()))
            optional &= set(new.get("properties", ()))
            lost += [f"{where}.{name}: no longer always sent" for name in sorted(optional)]
            lost += self._properties(where, old, new, above, self._keeps)
            others = [each.get("additionalProperties") for each in (old, new)]
            if isinstance(others[0], Mapping):
                later = others[1] if isinstance(others[1], Mapping) else {}
                lost += self._keeps(f"{where}.*", others[0], later, above)
        return lost

    def _properties(
        self,
        where: str,
        old: Schema,
        new: Schema,
        above: Pairs,
        compare: Callable[[str, Schema, Schema, Pairs], list[str]],
    ) -> list[str]:
        lost = []
        for name, schema in old.get("properties", {}).items():
            if name not in new.get("properties", {}):
                lost.append(f"{where}.{name}: removed")
            else:
                lost += compare(f"{where}.{name}", schema, new["properties"][name], above)
        return lost

    def _items(
        self,
        where: str,
        old: Schema,
        new: Schema,
        above: Pairs,
        compare: Callable[[str, Schema, Schema, Pairs], list[str]],
    ) -> list[str]:
        if old.get("type") != "array":
            return []
        lost = compare(f"{where}[]", old.get("items", {}), new.get("items", {}), above)
        first, later = old.get("prefixItems", []), new.get("prefixItems", [])
        if len(first) != len(later):
            return [*lost, f"{where}: had {len(first)} items of fixed place, has {len(later)}"]
        for number, (each, other) in enumerate(zip(first, later, strict=True)):
            lost += compare(f"{where}[{number}]", each, other, above)
        return lost


def _by_name(operation: Schema) -> dict[tuple[str, str], Schema]:
    return {(each["name"].lower(), each["in"]): each for each in operation.get("parameters", ())}


def _references(part: Any) -> Iterator[str]:
    if isinstance(part, Mapping):
        if isinstance(part.get("$ref"), str):
            yield part["$ref"]
        for name, value in part.items():
            if name != "discriminator":
                yield from _references(value)
    elif isinstance(part, list):
        for value in part:
            yield from _references(value)


def _resolve(document: Mapping[str, Any], reference: str) -> Schema:
    part: Any = document
    for name in reference.removeprefix("#/").split("/"):
        part = part[name]
    return dict(part)


def _flat(document: Mapping[str, Any], schema: Schema) -> list[Schema]:
    """The alternatives of a schema, references resolved, constraints beside them put into each."""
    unknown = schema.keys() - KNOWN
    if unknown:
        raise ValueError(f"the comparison does not know the schema keywords {sorted(unknown)}")
    own = {
        PYDANTIC_BOUNDS.get(name, name): value
        for name, value in schema.items()
        if name not in ANNOTATIONS and name not in ("$ref", "anyOf", "oneOf")
    }
    if isinstance(own.get("type"), list):
        inner: list[Schema] = [{"type": each} for each in own.pop("type")]
    elif "$ref" in schema:
        inner = [_resolve(document, schema["$ref"])]
    elif "anyOf" in schema or "oneOf" in schema:
        inner = list(schema.get("anyOf", [])) + list(schema.get("oneOf", []))
    else:
        return [own]
    return [{**each, **own} for part in inner for each in _flat(document, part)]


def _may_be_null(alternative: Schema) -> bool:
    """A schema without a type says nothing about null."""
    return alternative.get("type") == "null"


def _accepted_types(kind: str) -> tuple[str, ...]:
    return ("number", "integer") if kind == "number" else (kind,)


def _values(schema: Schema) -> list[Any] | None:
    """The only values that a schema allows; None when it does not list them."""
    if "const" in schema:
        return [schema["const"]]
    return list(schema["enum"]) if "enum" in schema else None


def _narrowed(where: str, old: Schema, new: Schema) -> Iterator[str]:
    """Constraints of one value that are tighter in `new`."""
    allowed, wanted = _values(new), _values(old)
    if allowed is not None and wanted is None:
        yield f"{where}: only {allowed} is accepted now"
    elif allowed is not None and wanted is not None:
        yield from (f"{where}: value {each!r} removed" for each in wanted if each not in allowed)
    if wanted is not None:  # bounds and patterns of listed values are settled by the list
        return
    for name in sorted(LOWER & new.keys()):
        if name not in old or new[name] > old[name]:
            yield f"{where}: {name} {old.get(name, 'none')} became {new[name]}"
    for name in sorted(UPPER & new.keys()):
        if name not in old or new[name] < old[name]:
            yield f"{where}: {name} {old.get(name, 'none')} became {new[name]}"
    for name in sorted(SAME & new.keys()):
        if old.get(name) != new[name]:
            yield f"{where}: {name} {old.get(name, 'none')!r} became {new[name]!r}"

"""Describe a config for a form: kind, default, bounds and meaning of each setting."""

from __future__ import annotations

import ast
import inspect
import math
from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from itertools import pairwise
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from midstep.core.errors import ConfigError

Kind = Literal["int", "float", "bool", "choice", "text"]
T = TypeVar("T")
_KINDS: Mapping[Any, Kind] = {int: "int", float: "float", bool: "bool", str: "text"}
MAX_TEXT = 1_000


def bounded_field(default: T, *, minimum: float | None = None, maximum: float | None = None) -> T:
    """A field of a config with bounds for a form. The config must check them itself as well."""
    return field(default=default, metadata={"minimum": minimum, "maximum": maximum})


@dataclass(frozen=True, kw_only=True)
class RecipeSetting:
    """One setting of a recipe."""

    name: str
    """Name of the config's field."""
    kind: Kind
    """Type of its values."""
    default: int | float | bool | str
    """Value used when none is given."""
    minimum: float | None = None
    """Smallest allowed number."""
    maximum: float | None = None
    """Largest allowed number."""
    choices: tuple[str, ...] = ()
    """All choices, if it is one."""
    about: str = ""
    """Its meaning, in a sentence."""

    def check(self, value: Any) -> str | None:
        """What is wrong with `value`; None when it is allowed."""
        if self.kind == "bool":
            return None if isinstance(value, bool) else "must be true or false"
        if self.kind == "choice":
            return None if value in self.choices else f"must be one of {', '.join(self.choices)}"
        if self.kind == "text":
            fits = isinstance(value, str) and len(value) <= MAX_TEXT
            return None if fits else f"must be a text of at most {MAX_TEXT:,} characters"
        return self._check_number(value)

    def _check_number(self, value: Any) -> str | None:
        kinds = (int,) if self.kind == "int" else (int, float)
        # bool is an int in Python, but true is not a number in a form.
        if isinstance(value, bool) or not isinstance(value, kinds) or not math.isfinite(value):
            return "must be a whole number" if self.kind == "int" else "must be a finite number"
        if self.minimum is not None and value < self.minimum:
            return f"must be at least {self.minimum:,}"
        if self.maximum is not None and value > self.maximum:
            return f"must be at most {self.maximum:,}"
        return None


def describe_settings(config: type[Any]) -> tuple[RecipeSetting, ...]:
    """The settings of a config dataclass, in the order of its fields.

    >>> from midstep.loops.bcl_config import BclConfig
    >>> describe_settings(BclConfig)[0].choices[:2]
    ('novelty', 'control')
    """
    hints, docstrings = get_type_hints(config), _field_docstrings(config)
    return tuple(
        _setting(each, hints[each.name], docstrings.get(each.name, "")) for each in fields(config)
    )


def check_settings(settings: tuple[RecipeSetting, ...], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return `given`, or raise one error that lists all problems."""
    by_name = {each.name: each for each in settings}
    problems = []
    for name, value in given.items():
        known = by_name.get(name)
        reason = (
            f"is not a setting; there are {', '.join(by_name)}"
            if known is None
            else known.check(value)
        )
        if reason is not None:
            problems.append(f"{name} {reason}, got {value!r}" if known else f"{name} {reason}")
    if problems:
        raise ConfigError("; ".join(problems))
    return dict(given)


def _setting(each: Field[Any], hint: Any, about: str) -> RecipeSetting:
    choices = get_args(hint) if get_origin(hint) is Literal else ()
    kind: Kind | None = "choice" if choices else _KINDS.get(hint)
    if kind is None or each.default is MISSING:
        raise ConfigError(
            f"setting {each.name} is {hint}; a recipe takes int, float, bool, str or a Literal "
            "of strings, each with a default"
        )
    bounds = {name: each.metadata.get(name) for name in ("minimum", "maximum")}
    return RecipeSetting(
        name=each.name, kind=kind, default=each.default, choices=choices, about=about, **bounds
    )


def _field_docstrings(config: type[Any]) -> dict[str, str]:
    """The docstring below each field. Python does not keep it, so the source is parsed."""
    (definition,) = ast.parse(inspect.cleandoc(inspect.getsource(config))).body
    body = definition.body if isinstance(definition, ast.ClassDef) else []
    docstrings = {}
    for before, line in pairwise(body):
        if not (isinstance(before, ast.AnnAssign) and isinstance(before.target, ast.Name)):
            continue
        if isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant):
            docstrings[before.target.id] = " ".join(str(line.value.value).split())
    return docstrings

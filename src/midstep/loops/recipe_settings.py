"""Describe a config for a form: kind, default, bounds and meaning of each setting."""

from __future__ import annotations

import ast
import inspect
import math
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from itertools import pairwise
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from midstep.core.errors import ConfigError

Kind = Literal["int", "float", "bool", "choice", "text", "ints", "words", "file"]
"""`ints` and `words` are lists; `file` is a data file of the server, by its id."""
SettingValue = int | float | bool | str | list[int] | list[str] | None
_KINDS: Mapping[Any, Kind] = {int: "int", float: "float", bool: "bool", str: "text"}
MAX_TEXT = 1_000


@dataclass(frozen=True, kw_only=True)
class RecipeSetting:
    """One setting of a recipe."""

    name: str
    """Name of the config's field."""
    kind: Kind
    """Type of its values."""
    default: SettingValue
    """Value used when none is given."""
    group: str = ""
    """Group of a config tree that it belongs to. The setting with this name chooses its option."""
    is_optional: bool = False
    """Whether it may be null, for none."""
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
        if value is None and self.is_optional:
            return None
        if self.kind in ("ints", "words"):
            item = int if self.kind == "ints" else str
            fits = isinstance(value, list) and all(type(each) is item for each in value)
            return None if fits else f"must be a list of {self.kind}"
        if self.kind == "bool":
            return None if isinstance(value, bool) else "must be true or false"
        if self.kind == "choice":
            return None if value in self.choices else f"must be one of {', '.join(self.choices)}"
        if self.kind in ("text", "file"):
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


def describe_nested(
    config: type[Any], defaults: Mapping[str, Any], prefix: str, *, group: str
) -> Iterator[RecipeSetting]:
    """The settings of a config that may hold other configs, with full keys.

    Args:
        config: the dataclass.
        defaults: its values when nothing is given.
        prefix: what is before the name of a field.
        group: the group of all of them.
    """
    hints, docstrings = get_type_hints(config), _field_docstrings(config)
    for each in fields(config):
        name, default = f"{prefix}{each.name}", defaults[each.name]
        if is_dataclass(hints[each.name]):
            yield from describe_nested(hints[each.name], default, f"{name}.", group=group)
            continue
        kind, choices, is_optional = _kind_of(hints[each.name])
        yield RecipeSetting(
            name=name,
            kind=kind,
            default=list(default) if isinstance(default, tuple) else default,
            group=group,
            is_optional=is_optional,
            minimum=each.metadata.get("minimum"),
            maximum=each.metadata.get("maximum"),
            choices=choices,
            about=docstrings.get(each.name, ""),
        )


def _kind_of(hint: Any) -> tuple[Kind, tuple[str, ...], bool]:
    """Kind and choices of a setting by its type, and whether it may be None."""
    arguments = get_args(hint)
    if get_origin(hint) in (Union, UnionType):
        others = [each for each in arguments if each is not NoneType]
        # Of several types, such as a number or `auto`, the form takes the text.
        kind, choices, _ = _kind_of(others[0]) if len(others) == 1 else ("text", (), False)
        return kind, choices, NoneType in arguments
    if get_origin(hint) is tuple:
        return ("ints" if arguments[0] is int else "words"), (), False
    choices = arguments if get_origin(hint) is Literal else ()
    return ("choice" if choices else _KINDS.get(hint, "text")), choices, False


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
    return RecipeSetting(
        name=each.name,
        kind=kind,
        default=each.default,
        choices=choices,
        about=about,
        minimum=each.metadata.get("minimum"),
        maximum=each.metadata.get("maximum"),
    )


def _field_docstrings(config: type[Any]) -> dict[str, str]:
    """The docstring below each field, those of bases included.

    Python does not keep it, so the source is parsed.
    """
    docstrings: dict[str, str] = {}
    for each in reversed(config.__mro__):
        if is_dataclass(each):
            docstrings |= _own_docstrings(each)
    return docstrings


def _own_docstrings(config: type[Any]) -> dict[str, str]:
    try:
        source = inspect.getsource(config)
    except (OSError, TypeError):  # a class of a notebook or of `exec` has none
        return {}
    (definition,) = ast.parse(inspect.cleandoc(source)).body
    body = definition.body if isinstance(definition, ast.ClassDef) else []
    docstrings = {}
    for before, line in pairwise(body):
        if not (isinstance(before, ast.AnnAssign) and isinstance(before.target, ast.Name)):
            continue
        if isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant):
            docstrings[before.target.id] = " ".join(str(line.value.value).split())
    return docstrings

"""`CommandDefinition`: name, payload and result of one command, and the check of a payload.

The command queue, the routes of the server, the methods of the client and `midstep ctl` are derived
from the definitions in `catalog`. `midstep ctl` and the client load this module, so it imports
neither pydantic nor torch.
"""

from __future__ import annotations

import math
import types
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cached_property
from typing import (
    Annotated,
    Any,
    Generic,
    Literal,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from midstep.core.errors import ConfigError

P = TypeVar("P")
LARGEST_INTEGER = 2**63
"""Integers of a payload are smaller: torch, numpy and the facts have 64 bits for them."""


@dataclass(frozen=True)
class Least:
    """The smallest value that a field may have."""

    value: float


@dataclass(frozen=True)
class Most:
    """The largest value that a field may have."""

    value: float


@dataclass(frozen=True)
class Below:
    """Every value of a field is smaller than this."""

    value: float


@dataclass(frozen=True)
class Help:
    """One line about a field, for `--help` and the OpenAPI document."""

    text: str


@dataclass(frozen=True, kw_only=True)
class NoPayload:
    """The payload of a command without settings."""


@dataclass(frozen=True)
class PayloadField:
    """One field of a payload, with its limits taken out of `Annotated`."""

    name: str
    type: Any
    """The type without `None` and without limits; items of a tuple keep theirs."""
    limits: tuple[Least | Most | Below, ...]
    default: Any
    """`dataclasses.MISSING` if the field must be given."""
    help: str
    is_optional: bool
    """Whether `None` is a valid value."""

    @property
    def is_required(self) -> bool:
        """Whether the field must be given."""
        return self.default is MISSING

    @property
    def expected(self) -> str:
        """What a valid value is, as an error message says it."""
        return _expected(self.type, self.limits)

    def check(self, value: Any) -> Any:
        """Return a valid value, lists as tuples where the type says so.

        Raises:
            ConfigError: the value has the wrong type or is outside the limits.
        """
        if value is None and self.is_optional:
            return None
        if not _is_valid(value, self.type, self.limits):
            raise ConfigError(f"{self.name} must be {self.expected}, got {value!r}")
        # JSON has no tuples: a pair such as betas arrives as a list.
        return tuple(value) if get_origin(self.type) is tuple else value


@dataclass(frozen=True, kw_only=True)
class CommandDefinition(Generic[P]):
    """What callers and the handler of one command agree on.

    >>> @dataclass(frozen=True, kw_only=True)
    ... class ScanPayload:
    ...     rows: Annotated[int, Least(1), Most(100)] = 10
    >>> scan = CommandDefinition(name="scan", payload=ScanPayload, help="Scan rows.")
    >>> scan.parse({"rows": 20})
    ScanPayload(rows=20)
    """

    name: str
    """What callers type, for example `save_checkpoint`."""
    help: str
    """One line for `--help` and the docstrings that are derived."""
    payload: type[P] = NoPayload  # type: ignore[assignment]
    """Frozen dataclass; rules between its fields are checked in its `__post_init__`."""
    result: Any = None
    """Type of the result: a `TypedDict`, another type, or None."""
    alias: str | None = None
    """A second name under which the command is offered."""
    verb: bool = False
    """Whether it has its own route and answers with the state of the run."""
    needs_pause: bool = False
    """Whether the run must be paused."""
    moves_training: bool = False
    """Whether it changes the step the training is at: refused while other commands or granted
    steps run. Such a command also needs a pause."""

    def __post_init__(self) -> None:
        if not is_dataclass(self.payload):
            raise ConfigError(
                f"the payload of {self.name} must be a dataclass, got {self.payload!r}"
            )
        # Annotations that cannot be resolved raise here, not when the first command arrives.
        _ = self.fields

    @property
    def names(self) -> tuple[str, ...]:
        """The name, and the alias if there is one."""
        return (self.name,) if self.alias is None else (self.name, self.alias)

    @cached_property
    def fields(self) -> dict[str, PayloadField]:
        """The fields of the payload by name."""
        hints = get_type_hints(self.payload, include_extras=True)
        return {
            each.name: _payload_field(each.name, hints[each.name], each.default)
            for each in fields(self.payload)  # type: ignore[arg-type]
        }

    def parse(self, given: Mapping[str, Any]) -> P:
        """Return the payload with these fields.

        Raises:
            ConfigError: a field is unknown, missing, of the wrong type or outside its limits. The
                message names the field, what was expected and what was given.
        """
        for name in given:
            if name not in self.fields:
                names = ", ".join(self.fields)
                known = f"its fields are {names}" if names else "it takes no fields"
                raise ConfigError(f"{self.name} has no field {name!r}; {known}")
        for name, field in self.fields.items():
            if field.is_required and name not in given:
                raise ConfigError(f"{self.name} needs the field {name}: {field.expected}")
        return self.payload(
            **{name: self.fields[name].check(value) for name, value in given.items()}
        )


def _payload_field(name: str, hint: Any, default: Any) -> PayloadField:
    type_, extras = split_annotated(hint)
    members = get_args(type_) if _is_union(type_) else (type_,)
    is_optional = types.NoneType in members
    if is_optional:
        # `Annotated[int, Least(1)] | None` holds the limits inside the union.
        (type_, inner), *others = (
            split_annotated(member) for member in members if member is not types.NoneType
        )
        extras = (*extras, *inner)
        if others:  # several types besides None are not checked
            type_ = Any
    return PayloadField(
        name=name,
        type=type_,
        limits=tuple(each for each in extras if isinstance(each, Least | Most | Below)),
        default=default,
        help=next((each.text for each in extras if isinstance(each, Help)), ""),
        is_optional=is_optional,
    )


def split_annotated(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return a type and what `Annotated` adds to it."""
    if get_origin(hint) is Annotated:
        type_, *extras = get_args(hint)
        return type_, tuple(extras)
    return hint, ()


def _is_union(type_: Any) -> bool:
    return isinstance(type_, types.UnionType) or get_origin(type_) is Union


def _is_valid(value: Any, type_: Any, limits: tuple[Any, ...]) -> bool:
    """Whether a value fits; types other than those below are left to the payload."""
    if type_ in (int, float):
        return _is_number(value, type_) and all(_is_within(value, limit) for limit in limits)
    if type_ in (bool, str):
        return isinstance(value, type_)
    if get_origin(type_) is Literal:
        return value in get_args(type_)
    if get_origin(type_) is tuple:
        items = get_args(type_)
        return (
            isinstance(value, list | tuple)
            and len(value) == len(items)
            and all(
                _is_valid(each, *split_annotated(item))
                for each, item in zip(value, items, strict=True)
            )
        )
    return True


def _is_number(value: Any, type_: type) -> bool:
    # A bool is an int in Python, but `true` is not a number of steps.
    allowed = int if type_ is int else int | float
    if isinstance(value, bool) or not isinstance(value, allowed):
        return False
    # `isfinite` raises for an integer that no float can hold.
    return abs(value) < LARGEST_INTEGER if isinstance(value, int) else math.isfinite(value)


def _is_within(value: float, limit: Any) -> bool:
    if isinstance(limit, Least):
        return value >= limit.value
    if isinstance(limit, Most):
        return value <= limit.value
    return value < limit.value if isinstance(limit, Below) else True


def _expected(type_: Any, limits: tuple[Any, ...]) -> str:
    if type_ in (int, float):
        kind = "a whole number" if type_ is int else "a finite number"
        return f"{kind}{_expected_range(limits)}"
    if get_origin(type_) is tuple:
        items = get_args(type_)
        return f"{len(items)} values, each {_expected(*split_annotated(items[0]))}"
    if get_origin(type_) is Literal:
        return f"one of {', '.join(map(repr, get_args(type_)))}"
    return {bool: "true or false", str: "text"}.get(type_, str(type_))


def _expected_range(limits: tuple[Any, ...]) -> str:
    bounds = {type(limit): f"{limit.value:,}" for limit in limits if not isinstance(limit, Help)}
    if Least in bounds and Most in bounds:
        return f" from {bounds[Least]} to {bounds[Most]}"
    words = {Least: "of at least", Most: "of at most", Below: "below"}
    parts = [f"{words[kind]} {bounds[kind]}" for kind in words if kind in bounds]
    return f" {' and '.join(parts)}" if parts else ""

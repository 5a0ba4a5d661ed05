"""Checks of settings, and configs from plain values.

A check gives a problem as one line, or None where the value is right. A config collects the
problems of all its fields, so that one error lists everything that is wrong.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, is_dataclass
from numbers import Integral, Real
from typing import Any, TypeVar, get_type_hints

from midstep.core.errors import ConfigError

T = TypeVar("T")
_SUM_TOLERANCE = 1e-6
"""Shares such as 0.1 + 0.2 + 0.7 do not add up to exactly 1 in floating point."""


def is_integer(value: Any) -> bool:
    """Whether a value is a whole number, also one of NumPy.

    True and False are not: JSON keeps them apart from numbers.
    """
    return isinstance(value, Integral) and not isinstance(value, bool)


def is_number(value: Any) -> bool:
    """Whether a value is a finite number, also one of NumPy."""
    if not isinstance(value, Real) or isinstance(value, bool):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer that no float can hold
        return False


def integer(name: str, value: Any) -> str | None:
    """A whole number of any sign."""
    return None if is_integer(value) else f"{name} must be a whole number, got {value!r}"


def at_least(name: str, value: Any, least: int) -> str | None:
    """A whole number that is not below `least`.

    >>> at_least("n_neg", 0, 1)
    'n_neg must be a whole number of at least 1, got 0'
    """
    if is_integer(value) and value >= least:
        return None
    return f"{name} must be a whole number of at least {least}, got {value!r}"


def within(name: str, value: Any, low: float, high: float, *, kind: str = "a number") -> str | None:
    """A number from `low` to `high`, both included."""
    if is_number(value) and low <= value <= high:
        return None
    return f"{name} must be {kind} from {low} to {high}, got {value!r}"


def cosine_threshold(name: str, value: Any) -> str | None:
    """A cosine from which two texts count as nearly the same."""
    if is_number(value) and 0 < value <= 1:
        return None
    return f"{name} must be a cosine above 0 and up to 1, got {value!r}"


def one_of(name: str, value: Any, choices: Sequence[Any]) -> str | None:
    """One of the choices.

    >>> one_of("form", "zip", ("memmap", "pt"))
    "form must be one of memmap, pt, got 'zip'"
    """
    # The type first: a list or a mapping from a file can be compared with nothing.
    if isinstance(value, int | str) and value in choices:
        return None
    return f"{name} must be one of {', '.join(map(str, choices))}, got {value!r}"


def known_name(what: str, value: Any, names: Iterable[str]) -> str | None:
    """One of the names of a registry. The problem gives the nearest name and lists all.

    >>> known_name("data source", "digit", ("digits", "npz"))
    "there is no data source 'digit', did you mean 'digits'? The names are: digits, npz"
    """
    known = list(names)
    if isinstance(value, str) and value in known:
        return None
    nearest = difflib.get_close_matches(str(value), known, n=1, cutoff=0.5)
    hint = f", did you mean {nearest[0]!r}?" if nearest else "."
    return f"there is no {what} {value!r}{hint} The names are: {', '.join(known)}"


def shares(name: str, value: Any, keys: Sequence[str]) -> str | None:
    """A mapping with exactly these keys, whose values are shares of 1.

    >>> shares("ratios", {"train": 0.5, "val": 0.1}, ("train", "val"))
    'ratios must sum to 1, got 0.6'
    """
    if not isinstance(value, Mapping) or set(value) != set(keys):
        given = ", ".join(map(str, value)) if isinstance(value, Mapping) else repr(value)
        return f"{name} must have the keys {', '.join(keys)}, got {given}"
    for key, share in value.items():
        problem = within(f"{name}.{key}", share, 0, 1)
        if problem is not None:
            return problem
    total = math.fsum(value.values())
    return None if sums_to_one(value.values()) else f"{name} must sum to 1, got {total:g}"


def sums_to_one(values: Iterable[float]) -> bool:
    """Whether numbers add up to 1, up to rounding."""
    return abs(math.fsum(values) - 1) <= _SUM_TOLERANCE


def require(*problems: str | None) -> None:
    """Raise a `ConfigError` that lists the problems, if there are any.

    >>> require(None, at_least("epochs", 0, 1))
    Traceback (most recent call last):
    midstep.core.errors.ConfigError: epochs must be a whole number of at least 1, got 0
    """
    wrong = [problem for problem in problems if problem is not None]
    if wrong:
        raise ConfigError("; ".join(wrong))


def bounded_field(default: T, *, minimum: float | None = None, maximum: float | None = None) -> T:
    """A field of a config with bounds for a form. The config must check them itself as well."""
    return field(default=default, metadata={"minimum": minimum, "maximum": maximum})


def read_dataclass(config: type[T], values: Mapping[str, Any], *, path: str = "") -> T:
    """A dataclass from plain values of the right types. Its own checks name the wrong key in full.

    >>> from midstep.core.sample_spec import SampleSpec
    >>> read_dataclass(SampleSpec, {"kind": "sound"}, path="data")
    Traceback (most recent call last):
    midstep.core.errors.ConfigError: data.kind must be one of events, image, vector, got 'sound'
    """
    hints = get_type_hints(config)
    given = {}
    for name, value in values.items():
        hint, at = hints[name], f"{path}.{name}" if path else name
        if is_dataclass(value) or not isinstance(value, Mapping):
            given[name] = tuple(value) if isinstance(value, list) else value
        else:
            given[name] = read_dataclass(hint, value, path=at)
    try:
        return config(**given)
    except ConfigError as error:
        if not path:
            raise
        problems = str(error).split("; ")
        raise ConfigError(
            "; ".join(_in_full(path, problem, hints) for problem in problems)
        ) from error


def _in_full(path: str, problem: str, names: Mapping[str, Any]) -> str:
    """A problem with the full key in front, where it begins with the name of a field."""
    return f"{path}.{problem}" if problem.split(" ", 1)[0] in names else problem

"""From dataclasses to schemas of OmegaConf.

OmegaConf knows neither `Literal` nor tuples of any length, so a schema has `str` and lists in their
place. The dataclasses check the choices themselves when they are built.
"""

from __future__ import annotations

import types
from collections.abc import Iterator
from dataclasses import MISSING, field, fields, is_dataclass, make_dataclass
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from midstep.core.errors import ConfigError

_SCHEMAS: dict[type[Any], type[Any]] = {}
"""Schemas by config. Each is made once: OmegaConf compares the types of nodes."""


def schema_of(config: type[Any]) -> type[Any]:
    """The dataclass that OmegaConf takes as the schema of `config`.

    >>> from midstep.data.sources.data_config import DataConfig
    >>> schema_of(DataConfig)().cache
    'none'
    """
    if config in _SCHEMAS:
        return _SCHEMAS[config]
    hints = get_type_hints(config)
    bases = tuple(schema_of(base) for base in config.__bases__ if is_dataclass(base))
    own = [
        (each.name, _schema_hint(hints[each.name]), _schema_field(each, hints[each.name]))
        for each in fields(config)
    ]
    schema = make_dataclass(f"{config.__name__}Schema", own, bases=bases, kw_only=True)
    return _SCHEMAS.setdefault(config, schema)


def _schema_hint(hint: Any) -> Any:
    if is_dataclass(hint):
        return schema_of(hint)  # type: ignore[arg-type]
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return str
    if origin is tuple:
        return list[arguments[0]]  # type: ignore[valid-type]
    if origin in (Union, types.UnionType):
        return Union[tuple(_schema_hint(each) for each in arguments)]  # noqa: UP007 - built from a tuple
    return hint


def _schema_field(each: Any, hint: Any) -> Any:
    if each.default_factory is not MISSING:
        # The default may be a subclass of the declared type, such as the settings of one loop.
        return field(default_factory=schema_of(type(each.default_factory())))
    if isinstance(each.default, tuple):
        values = list(each.default)
        return field(default_factory=lambda: list(values))
    if each.default is MISSING:
        raise ConfigError(f"the setting {each.name} ({hint}) has no default; give it one")
    return field(default=each.default)


def keys_of(config: type[Any], prefix: str = "") -> Iterator[str]:
    """The full keys of all values of a config, without those that only hold others."""
    hints = get_type_hints(config)
    for each in fields(config):
        key = f"{prefix}{each.name}"
        if is_dataclass(hints[each.name]):
            yield from keys_of(hints[each.name], f"{key}.")
        else:
            yield key

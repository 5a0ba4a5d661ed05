"""Data sources by name. Listing them loads neither torch nor data.

Another package adds a source with an entry point of the group `midstep.sources`: its name is the
name of the source, its object the builder.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points
from pkgutil import resolve_name
from typing import TYPE_CHECKING

from midstep.core.errors import ConfigError
from midstep.core.field_checks import known_name, require

if TYPE_CHECKING:
    from midstep.data.sources.data_config import DataConfig
    from midstep.data.sources.source_data import SourceData

    Builder = Callable[[DataConfig], SourceData]
    """Reads or generates the data of a config."""

GROUP = "midstep.sources"
_HERE = "midstep.data.sources"
_BUILDERS: dict[str, Builder | str] = {
    "digits": f"{_HERE}.images:build_digits",
    "h5": f"{_HERE}.h5_events:build_h5",
    "mnist": f"{_HERE}.images:build_mnist",
    "mnist5k": f"{_HERE}.images:build_mnist5k",
    "npz": f"{_HERE}.npz_tables:build_npz",
    "synthetic": f"{_HERE}.synthetic:build_synthetic",
}
"""Builders, or their names as `package.module:name`."""


def register_source(name: str, builder: Builder | str) -> None:
    """Add a source, so that `data.name=NAME` uses it.

    Args:
        name: a name that no other source has.
        builder: takes a `DataConfig` and returns a `SourceData`; or its name as
            `package.module:name`, which is imported when it is first used.

    Raises:
        ConfigError: another builder has this name.
    """
    if _BUILDERS.get(name, builder) != builder:
        raise ConfigError(f"there is a data source {name!r} already; choose another name")
    _BUILDERS[name] = builder


def source_names() -> list[str]:
    """The names of all sources, sorted.

    >>> "synthetic" in source_names()
    True
    """
    return sorted({*_BUILDERS, *(entry.name for entry in entry_points(group=GROUP))})


def builder_module(name: str) -> str:
    """The module in which the builder of a source is defined. A built-in one is not imported.

    >>> builder_module("synthetic")
    'midstep.data.sources.synthetic'
    """
    builder = _BUILDERS.get(name)
    return builder.partition(":")[0] if isinstance(builder, str) else find_builder(name).__module__


def find_builder(name: str) -> Builder:
    """The builder of a source. Sources registered in this process come before entry points.

    Raises:
        ConfigError: there is no such source; the message gives the nearest name.
    """
    require(known_name("data source", name, source_names()))
    builder = _BUILDERS.get(name)
    if isinstance(builder, str):
        resolved: Builder = resolve_name(builder)
        return resolved
    if builder is not None:
        return builder
    (entry, *_) = entry_points(group=GROUP, name=name)
    try:
        loaded: Builder = entry.load()
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"the data source {name!r} of another package cannot be loaded from {entry.value} "
            f"({error}); repair or remove that package"
        ) from error
    return loaded

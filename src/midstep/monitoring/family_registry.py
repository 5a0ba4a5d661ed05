"""The plot families: what each is called, what it costs, and what draws it.

A further family is one function. It is registered here, or by an entry point of the group
`midstep.families` that names a `PlotFamily`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, TypeAlias

from midstep.core.errors import ConfigError
from midstep.monitoring.logging_config import Cost, LoggingConfig

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    Handle: TypeAlias = Callable[[str, Mapping[str, Any], LoggingConfig], list[Figure]]

GROUP = "midstep.families"
_log = logging.getLogger("midstep.monitoring")


@dataclass(frozen=True, kw_only=True)
class PlotFamily:
    """A kind of figure.

    Args:
        name: as the settings name it; letters, digits and underscores, since files are named by it.
        handle: draws the figures of a moment from a `FigurePayload`; none if it lacks its input.
        cost: how long it takes to draw.
        tags: what the settings select it by.
    """

    name: str
    handle: Handle
    cost: Cost = "low"
    tags: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if not (self.name.isidentifier() and self.name.isascii()):
            raise ConfigError(
                f"the plot family {self.name!r} needs a name of letters, digits and underscores"
            )


def _built_in(name: str, cost: Cost, *tags: str) -> PlotFamily:
    def handle(moment: str, payload: Mapping[str, Any], cfg: LoggingConfig) -> list[Figure]:
        # Imported at the first figure: matplotlib takes half a second.
        module = import_module(f"midstep.monitoring.families.{name}")
        figures: list[Figure] = module.handle(moment, payload, cfg)
        return figures

    return PlotFamily(name=name, handle=handle, cost=cost, tags=frozenset(tags))


_families = {
    family.name: family
    for family in (
        _built_in("losses", "low", "curves"),
        _built_in("metrics", "low", "curves"),
        _built_in("latency", "low", "curves", "speed"),
        _built_in("adversarial", "low", "curves"),
        _built_in("codebook", "medium", "latent"),
        _built_in("diffusion", "medium", "samples"),
        _built_in("recon", "high", "samples"),
    )
}


def register_family(family: PlotFamily) -> PlotFamily:
    """Make a family known in this process.

    Raises:
        ConfigError: another family has its name.
    """
    known = _families.setdefault(family.name, family)
    if known is not family:
        raise ConfigError(f"there is a plot family {family.name!r} already; choose another name")
    return family


def unregister_family(name: str) -> None:
    """Forget a family that `register_family` made known."""
    _families.pop(name, None)


def plot_families() -> Mapping[str, PlotFamily]:
    """All families by name; those of this process take precedence over entry points.

    >>> sorted(plot_families())[:3]
    ['adversarial', 'codebook', 'diffusion']
    """
    return {**_from_entry_points(), **_families}


@cache
def _from_entry_points() -> dict[str, PlotFamily]:
    families: dict[str, PlotFamily] = {}
    for entry in entry_points(group=GROUP):
        try:
            family = entry.load()
            families[family.name] = family
        except Exception:  # noqa: BLE001 - a broken package must not hide the other families
            _log.exception("plot family %s of %s cannot be used", entry.name, entry.value)
    return families

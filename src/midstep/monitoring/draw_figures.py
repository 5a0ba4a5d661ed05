"""`handle_event`: draws and saves the figures that the settings want at a moment."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from midstep.core.errors import ConfigError
from midstep.monitoring.family_registry import PlotFamily, plot_families
from midstep.monitoring.figure_files import build_filename, ensure_figures_dir, save_figure
from midstep.monitoring.logging_config import Cost, LoggingConfig

_COSTS = get_args(Cost)
_log = logging.getLogger("midstep.monitoring")


@dataclass(frozen=True)
class DrawnFigures:
    """What `handle_event` did."""

    files: list[Path] = field(default_factory=list)
    """Figures that were written."""
    failures: dict[str, str] = field(default_factory=dict)
    """The error of each family that failed, by name."""


def get_enabled_families(
    cfg_logging: LoggingConfig, supported_families: Iterable[str], moment: str
) -> list[PlotFamily]:
    """The families that draw at a moment: supported by the loop, and wanted by the settings.

    Raises:
        ConfigError: a family in the settings does not exist.

    >>> [each.name for each in get_enabled_families(LoggingConfig(), ["losses"], "on_epoch_end")]
    ['losses']
    """
    known = plot_families()
    for name in cfg_logging.families:
        if name not in known:
            raise ConfigError(_unknown(name, known))
    if not cfg_logging.make_plots or moment not in cfg_logging.moments:
        return []
    supported, most = frozenset(supported_families), _COSTS.index(cfg_logging.max_cost)
    return [
        family
        for family in map(known.__getitem__, dict.fromkeys(cfg_logging.families))
        if family.name in supported
        and _COSTS.index(family.cost) <= most
        and (not cfg_logging.tags or family.tags & set(cfg_logging.tags))
    ]


def _unknown(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(sorted(known))}"
    return f"logging.families: there is no plot family {name!r}; {hint}"


def handle_event(
    cfg_logging: LoggingConfig,
    supported_families: Iterable[str],
    moment: str,
    payload: Mapping[str, Any],
) -> DrawnFigures:
    """Draw the figures of a moment and save them in the run directory that the payload names.

    A family that raises is left out of the result's files and listed in its failures; the others
    are drawn all the same.

    Args:
        cfg_logging: which figures are wanted.
        supported_families: which families the loop has data for.
        moment: such as `on_epoch_end`.
        payload: a `FigurePayload`.
    """
    drawn = DrawnFigures()
    for family in get_enabled_families(cfg_logging, supported_families, moment):
        try:
            drawn.files.extend(_draw(family, cfg_logging, moment, payload))
        # A figure is never worth a training; the caller counts the failure.
        except Exception as error:  # noqa: BLE001
            drawn.failures[family.name] = f"{type(error).__name__}: {error}"
            _log.debug("plot family %s failed", family.name, exc_info=True)
    return drawn


def _draw(
    family: PlotFamily, cfg: LoggingConfig, moment: str, payload: Mapping[str, Any]
) -> Iterable[Path]:
    figures = family.handle(moment, payload, cfg)
    if not cfg.save_artifacts:
        for figure in figures:
            figure.clear()
        return []
    folder = ensure_figures_dir(payload["run_dir"]) if figures else Path()
    names = [
        build_filename(
            family.name, moment, payload["epoch"], number=number, fig_format=cfg.fig_format
        )
        for number in range(1, len(figures) + 1)
    ]
    return [
        save_figure(figure, folder / name, dpi=cfg.dpi)
        for figure, name in zip(figures, names, strict=True)
    ]

"""Figures of a run, drawn from its facts while it trains and afterwards.

Each name is imported when it is first used; matplotlib is imported when the first figure is drawn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from midstep.core.lazy_names import lazy_names

if TYPE_CHECKING:
    from midstep.monitoring.draw_figures import DrawnFigures as DrawnFigures
    from midstep.monitoring.draw_figures import get_enabled_families as get_enabled_families
    from midstep.monitoring.draw_figures import handle_event as handle_event
    from midstep.monitoring.family_registry import PlotFamily as PlotFamily
    from midstep.monitoring.family_registry import plot_families as plot_families
    from midstep.monitoring.family_registry import register_family as register_family
    from midstep.monitoring.figure_files import build_filename as build_filename
    from midstep.monitoring.figure_files import ensure_figures_dir as ensure_figures_dir
    from midstep.monitoring.figure_files import save_figure as save_figure
    from midstep.monitoring.figure_payload import FigurePayload as FigurePayload
    from midstep.monitoring.figure_session import FigureSession as FigureSession
    from midstep.monitoring.figure_session import draw_run_figures as draw_run_figures
    from midstep.monitoring.logging_config import LoggingConfig as LoggingConfig

__all__, __getattr__, __dir__ = lazy_names(
    __name__,
    {
        ".draw_figures": "DrawnFigures get_enabled_families handle_event",
        ".family_registry": "PlotFamily plot_families register_family",
        ".figure_files": "build_filename ensure_figures_dir save_figure",
        ".figure_payload": "FigurePayload",
        ".figure_session": "FigureSession draw_run_figures",
        ".logging_config": "LoggingConfig",
    },
)

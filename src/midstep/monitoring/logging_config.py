"""`LoggingConfig`: which figures a run draws, as the group `logging` of `conf` fills it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from midstep.core.field_checks import at_least, one_of, require
from midstep.core.moments import Moment

FigureFormat = Literal["png", "svg", "pdf"]
Cost = Literal["low", "medium", "high"]
"""How long a family takes to draw: curves, counts of a codebook, pictures of samples."""
FIGURE_MOMENTS = (Moment.VALIDATION_END, Moment.EPOCH_END, Moment.TEST_END, Moment.TRAIN_END)
"""The moments at which figures can be drawn, in the order in which a run meets them."""


@dataclass(frozen=True, kw_only=True)
class LoggingConfig:
    """Settings of the figures of a run."""

    make_plots: bool = True
    """Whether figures are drawn at all."""
    save_artifacts: bool = True
    """Whether drawn figures are written to the folder `figures` of the run."""
    families: tuple[str, ...] = (
        "losses",
        "metrics",
        "latency",
        "recon",
        "codebook",
        "adversarial",
        "diffusion",
    )
    """Plot families that are switched on; a loop draws those of them that it supports."""
    moments: tuple[str, ...] = ("on_epoch_end", "on_train_end")
    """Moments at which figures are drawn."""
    max_cost: Cost = "high"
    """Families that take longer to draw are left out."""
    tags: tuple[str, ...] = ()
    """Only families with one of these tags; all families if it is empty."""
    fig_format: FigureFormat = "png"
    """File format of the figures."""
    dpi: int = 120
    """Resolution of pixel formats."""
    mirror: str | None = None
    """A tracker that receives the facts. None yet: `wandb_*` is refused."""

    def __post_init__(self) -> None:
        require(
            one_of("fig_format", self.fig_format, get_args(FigureFormat)),
            one_of("max_cost", self.max_cost, get_args(Cost)),
            at_least("dpi", self.dpi, 20),
            *(one_of("moments", moment, FIGURE_MOMENTS) for moment in self.moments),
        )

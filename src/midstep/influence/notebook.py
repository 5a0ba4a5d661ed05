"""Plots of results for notebooks; matplotlib is loaded when the first one is drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from midstep.core.errors import ConfigError, MissingExtraError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from midstep.influence.results import FisherKernelResults, RequestResult
    from midstep.influence.validation import Validation
    from midstep.influence.workspace import KernelWorkspace

__all__ = [
    "plot_contributors",
    "plot_delta_distribution",
    "plot_kernel",
    "plot_norms",
    "plot_validation",
]


def _axes(axes: Axes | None) -> Axes:
    if axes is not None:
        return axes
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtraError.of("matplotlib", "influence") from None
    figure = Figure(figsize=(6, 4), layout="constrained")
    FigureCanvasAgg(figure)  # a figure of its own: no global state, nothing to close
    made: Axes = figure.add_subplot()
    return made


def plot_kernel(source: RequestResult | KernelWorkspace, axes: Axes | None = None) -> Axes:
    """Heatmap of K(E,U) of a request, or of K(U,U) of a workspace.

    Without `axes` a figure of its own is made; `plot_kernel(…).figure` shows it in a notebook.
    """
    kernel: Any = getattr(source, "kernel_eu", None)
    if kernel is None:
        kernel = getattr(source, "kernel_uu", None)
    if kernel is None:
        raise ConfigError("this request kept no kernel; run it with full_kernel=True")
    drawn = _axes(axes)
    limit = float(kernel.abs().flatten().double().quantile(0.98)) or 1.0
    image = drawn.imshow(
        kernel.numpy(), cmap="RdBu_r", vmin=-limit, vmax=limit, aspect="auto", interpolation="none"
    )
    drawn.figure.colorbar(image, ax=drawn, label="K")
    drawn.set_xlabel("sequence of the update")
    drawn.set_ylabel("evaluated sequence")
    return drawn


def plot_delta_distribution(result: RequestResult, axes: Axes | None = None) -> Axes:
    """Histogram of the predicted changes of log π."""
    drawn = _axes(axes)
    drawn.hist(result.delta["total"].tolist(), bins=30)
    drawn.axvline(0.0, color="grey", linewidth=1)
    drawn.set_xlabel("predicted Δ log π (nats)")
    drawn.set_ylabel("sequences")
    return drawn


def plot_norms(workspace: KernelWorkspace, axes: Axes | None = None) -> Axes:
    """Norms of the update's gradients, in the metric D and raw."""
    drawn = _axes(axes)
    drawn.scatter(workspace.raw_norms.tolist(), workspace.norms.tolist(), s=12)
    drawn.set_xlabel("|g|")
    drawn.set_ylabel("sqrt(g·D·g)")
    return drawn


def plot_contributors(
    results: FisherKernelResults, request: str, sequence_id: str, axes: Axes | None = None
) -> Axes:
    """Who moved one sequence, as signed bars."""
    found = results.request(request)
    row = list(reversed(found.contributors[found.batch.index_of(sequence_id)]))
    drawn = _axes(axes)
    colours = ["tab:red" if one.contribution > 0 else "tab:blue" for one in row]
    drawn.barh([one.sequence_id for one in row], [one.contribution for one in row], color=colours)
    drawn.axvline(0.0, color="grey", linewidth=1)
    drawn.set_xlabel(f"contribution to Δ log π of {sequence_id} (nats)")
    return drawn


def plot_validation(found: Validation, axes: Axes | None = None) -> Axes:
    """Predicted against actual changes at the smallest learning rate, with the line of equality."""
    drawn = _axes(axes)
    best = min(found.rates, key=lambda one: one.lr)
    predicted, actual = best.predicted.tolist(), best.actual.tolist()
    low, high = min(predicted + actual), max(predicted + actual)
    drawn.plot([low, high], [low, high], color="grey", linewidth=1, linestyle="--")
    drawn.scatter(predicted, actual, s=12)
    drawn.set_xlabel(f"predicted Δ log π at η = {best.lr:.0e}")
    drawn.set_ylabel("actual")
    return drawn

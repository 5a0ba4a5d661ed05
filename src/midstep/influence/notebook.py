"""Plots of results for notebooks. matplotlib is loaded with the first plot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from midstep.core.errors import ConfigError, MissingExtraError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from midstep.influence.study.results import FisherKernelResults, RequestResult
    from midstep.influence.study.validation import Validation
    from midstep.influence.study.workspace import KernelWorkspace


def _labelled_axes(axes: Axes | None, x_label: str, y_label: str | None = None) -> Axes:
    """The given axes, or those of a new figure, with labels."""
    if axes is None:
        try:
            from matplotlib.backends.backend_agg import FigureCanvasAgg
            from matplotlib.figure import Figure
        except ImportError:
            raise MissingExtraError.for_library("matplotlib", "influence") from None
        figure = Figure(figsize=(6, 4), layout="constrained")
        FigureCanvasAgg(figure)  # without pyplot: no global state, and nothing to close
        axes = figure.add_subplot()
    axes.set_xlabel(x_label)
    if y_label is not None:
        axes.set_ylabel(y_label)
    return axes


def plot_kernel(source: RequestResult | KernelWorkspace, axes: Axes | None = None) -> Axes:
    """Heatmap of K(E,U) of a request, or of K(U,U) of a workspace.

    Without `axes` a new figure is made; `plot_kernel(…).figure` shows it in a notebook.
    """
    kernel: Any = getattr(source, "kernel_eu", None)
    if kernel is None:
        kernel = getattr(source, "kernel_uu", None)
    if kernel is None:
        raise ConfigError("this request kept no kernel; run it with full_kernel=True")
    target = _labelled_axes(axes, "sequence of the update", "evaluated sequence")
    # The 98th percentile: one duplicated sequence would otherwise make all other cells white.
    limit = float(kernel.abs().flatten().double().quantile(0.98)) or 1.0
    image = target.imshow(
        kernel.numpy(), cmap="RdBu_r", vmin=-limit, vmax=limit, aspect="auto", interpolation="none"
    )
    target.figure.colorbar(image, ax=target, label="K")
    return target


def plot_delta_distribution(result: RequestResult, axes: Axes | None = None) -> Axes:
    """Histogram of the predicted changes of log π."""
    target = _labelled_axes(axes, "predicted Δ log π (nats)", "sequences")
    target.hist(result.delta["total"].tolist(), bins=30)
    target.axvline(0.0, color="grey", linewidth=1)
    return target


def plot_norms(workspace: KernelWorkspace, axes: Axes | None = None) -> Axes:
    """Norms of the update's gradients, in the metric D and raw."""
    target = _labelled_axes(axes, "|g|", "sqrt(g·D·g)")
    target.scatter(workspace.raw_norms.tolist(), workspace.norms.tolist(), s=12)
    return target


def plot_contributors(
    results: FisherKernelResults, request: str, sequence_id: str, axes: Axes | None = None
) -> Axes:
    """The contributors to the change of one sequence, as signed bars."""
    result = results.request(request)
    row = list(reversed(result.contributors[result.batch.index_of(sequence_id)]))
    target = _labelled_axes(axes, f"contribution to Δ log π of {sequence_id} (nats)")
    colours = ["tab:red" if one.contribution > 0 else "tab:blue" for one in row]
    target.barh([one.sequence_id for one in row], [one.contribution for one in row], color=colours)
    target.axvline(0.0, color="grey", linewidth=1)
    return target


def plot_validation(validation: Validation, axes: Axes | None = None) -> Axes:
    """Predicted against actual changes at the smallest learning rate, with the line of equality."""
    best = min(validation.rates, key=lambda one: one.lr)
    target = _labelled_axes(axes, f"predicted Δ log π at η = {best.lr:.0e}", "actual")
    predicted, actual = best.predicted.tolist(), best.actual.tolist()
    low, high = min(predicted + actual), max(predicted + actual)
    target.plot([low, high], [low, high], color="grey", linewidth=1, linestyle="--")
    target.scatter(predicted, actual, s=12)
    return target

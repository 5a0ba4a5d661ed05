"""`midstep ctl forces` and `ctl cosine`: what the last step did to the rows of a tensor."""

from __future__ import annotations

import math
from typing import Annotated, Any

import typer

from midstep.cli.ctl.run_option import RunOption, with_run_option
from midstep.cli.output.text_format import align_columns, format_number

_Tensor = Annotated[
    str | None, typer.Option(help="Name of the tensor; the run's default if left out.")
]
COLUMNS = ("id", "verdict", "cos_grad_som", "grad_magnitude", "som_magnitude", "win_rate")


@with_run_option
def forces(
    target: RunOption,
    feature: Annotated[
        int | None,
        typer.Argument(metavar="[ROW]", min=0, help="Show one row in its two parts."),
    ] = None,
    tensor: _Tensor = None,
    top: Annotated[int, typer.Option(min=0, help="Rows to show, largest gradient first.")] = 10,
) -> None:
    """Show both forces on the rows of a tensor, and how many agree or oppose each other.

    With ROW: what the last step did to that row. --json gives all numbers.
    """
    client = target.client()
    if feature is None:
        summary = client.forces.rows(tensor)
        target.answer(summary, "\n".join(_summary_lines(summary, top)))
    else:
        detail = client.forces.detail(feature, tensor=tensor)
        target.answer(detail, "\n".join(_detail_lines(detail, feature)))


@with_run_option
def cosine(
    target: RunOption,
    source: Annotated[str, typer.Option(help="weights, som_targets or grad_delta.")] = "weights",
    tensor: _Tensor = None,
    order: Annotated[str, typer.Option(help="id, cluster or metric:NAME.")] = "id",
    full: Annotated[bool, typer.Option("--full", help="All cells, also above 512 rows.")] = False,
) -> None:
    """Show how similar the rows of a tensor are. --json gives the matrix."""
    matrix = target.client().forces.cosine_matrix(source, tensor=tensor, order=order, full=full)
    parts = [
        f"{matrix['source']} of {matrix['tensor']} at step {matrix['step']:,}: "
        f"{matrix['rows']:,} rows",
        *(
            f"{name} {format_number(matrix[f'{name}_offdiag'])}"
            for name in ("mean", "std", "max")
            if matrix[f"{name}_offdiag"] is not None
        ),
    ]
    target.answer(matrix, ", ".join(parts))


def _summary_lines(summary: dict[str, Any], top: int) -> list[str]:
    columns = summary["features"]
    lines = [
        f"{summary['tensor']} at step {summary['step']:,}: {summary['agree']} agree, "
        f"{summary['fight']} oppose, {summary['neutral']} neutral"
    ]
    names = [name for name in COLUMNS if name in columns]
    magnitudes = [_finite_or_lowest(value) for value in columns["grad_magnitude"]]
    largest = sorted(range(len(magnitudes)), key=lambda row: -magnitudes[row])[:top]
    rows = [[format_number(columns[name][row]) for name in names] for row in largest]
    return lines + (align_columns([names, *rows], right=range(2, len(names))) if rows else [])


def _finite_or_lowest(value: float) -> float:
    # NaN compares false with everything, so it would leave the list unsorted.
    return value if math.isfinite(value) else -math.inf


def _detail_lines(detail: dict[str, Any], feature: int) -> list[str]:
    parts = ("combined", "grad_delta", "som_delta", "current_weight")
    rows = [(name, format_number(_length(detail[name]))) for name in parts]
    return [
        f"{detail['tensor']} row {feature} at step {detail['step']:,}: "
        f"cosine of gradient and SOM {format_number(detail['cos_grad_som'])}",
        *align_columns([("part", "length"), *rows], right=(1,)),
    ]


def _length(values: list[float]) -> float:
    return math.sqrt(math.fsum(value * value for value in values))

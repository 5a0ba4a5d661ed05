"""`midstep ctl forces`, `force`, `cosine`: what a step does to the rows of a tensor."""

from __future__ import annotations

import math
from typing import Annotated, Any

import typer

from midstep.cli.target import Target, on_target
from midstep.cli.wording import aligned, number_words

__all__ = ["cosine", "force", "forces"]

_Tensor = Annotated[
    str | None, typer.Option(help="Name of the tensor; the run's default when left out.")
]
TABLE = ("id", "verdict", "cos_grad_som", "grad_magnitude", "som_magnitude", "win_rate")


@on_target
def forces(
    target: Target,
    tensor: _Tensor = None,
    top: Annotated[int, typer.Option(min=0, help="Rows to show, largest gradient first.")] = 10,
) -> None:
    """Show both forces on the rows of a tensor, and how many agree or fight; --json gives all."""
    found = target.client().forces(tensor)
    target.answer(found, "\n".join(_force_lines(found, top)))


def _force_lines(found: dict[str, Any], top: int) -> list[str]:
    columns = found["features"]
    lines = [
        f"{found['tensor']} at step {found['step']:,}: {found['agree']} agree, "
        f"{found['fight']} fight, {found['neutral']} neutral"
    ]
    names = [name for name in TABLE if name in columns]
    magnitudes = [_sortable(value) for value in columns["grad_magnitude"]]
    largest = sorted(range(len(magnitudes)), key=lambda row: -magnitudes[row])[:top]
    rows = [[number_words(columns[name][row]) for name in names] for row in largest]
    return lines + (aligned([names, *rows], right=range(2, len(names))) if rows else [])


def _sortable(value: Any) -> float:
    return float(value) if math.isfinite(value) else -math.inf


@on_target
def force(
    target: Target,
    feature: Annotated[int, typer.Argument(min=0, help="Row of the tensor.")],
    tensor: _Tensor = None,
) -> None:
    """Show what the last step did to one row, in its two parts; --json gives all numbers."""
    found = target.client().force_detail(feature, tensor=tensor)
    parts = ("combined", "grad_delta", "som_delta", "current_weight")
    rows = [(name, number_words(_length(found[name]))) for name in parts]
    lines = [
        f"{found['tensor']} row {feature} at step {found['step']:,}: "
        f"cosine of gradient and SOM {number_words(found['cos_grad_som'])}",
        *aligned([("part", "length"), *rows], right=(1,)),
    ]
    target.answer(found, "\n".join(lines))


def _length(values: list[float]) -> float:
    return math.sqrt(math.fsum(value * value for value in values))


@on_target
def cosine(
    target: Target,
    source: Annotated[str, typer.Option(help="weights, som_targets or grad_delta.")] = "weights",
    tensor: _Tensor = None,
    order: Annotated[str, typer.Option(help="id, cluster or metric:NAME.")] = "id",
    full: Annotated[bool, typer.Option("--full", help="All cells, also above 512 rows.")] = False,
) -> None:
    """Show how alike the rows of a tensor are; --json gives the matrix."""
    found = target.client().cosine_matrix(source, tensor=tensor, order=order, full=full)
    words = [
        f"{found['source']} of {found['tensor']} at step {found['step']:,}: {found['rows']:,} rows",
        *(
            f"{name} {number_words(found[f'{name}_offdiag'])}"
            for name in ("mean", "std", "max")
            if found[f"{name}_offdiag"] is not None
        ),
    ]
    target.answer(found, ", ".join(words))

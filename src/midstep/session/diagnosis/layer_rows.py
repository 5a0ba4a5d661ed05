"""The table of a diagnosis: input, modules in the order in which they ran, and loss."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from torch import Tensor

from midstep.explore.diagnosis.forward_trace import Origin
from midstep.session.diagnosis.rerun import shown_name
from midstep.session.diagnosis.weights import norm_of

if TYPE_CHECKING:
    from torch import nn

    from midstep.explore.diagnosis.forward_trace import ForwardTrace, ModuleReading

MOST_ROWS = 200
ROWS_BEFORE_FIRST = 20


def layer_rows(
    model: nn.Module,
    trace: ForwardTrace | None,
    *,
    origin: Origin | None,
    input_share: float | None,
    loss_is_finite: bool | None,
    saved: Mapping[str, Any] | None,
) -> list[dict[str, Any]]:
    """Rows with name, role, status, share of values that are not finite, and norms.

    Args:
        model: the module in training; its present weights and gradients are read.
        trace: of the repeated passes; without one the modules with weights are listed.
        origin: where the first value that is not finite appeared.
        input_share: share of the inputs that is not finite; None if unknown.
        loss_is_finite: None if the loss is unknown.
        saved: the weights that the passes were made with, by name; None for the present ones.
    """
    norms = _norms_by_module(model, saved)
    if trace is None or not trace.readings:
        rows = [_row(name, "module", None, norms) for name in norms]
        first = None
    else:
        readings = _chosen(trace)
        first = trace.first_module
        rows = [_row(each.name, "module", each, norms) for each in readings]
    for row in rows:
        row["status"] = _status(row, origin, first)
    if origin is not None and origin.kind == "operation" and not _is_of_loss(origin):
        _insert_operation(rows, origin)
    rows = _bounded(rows)
    if input_share is not None:
        is_source = bool(input_share) and origin is not None and origin.kind == "input"
        rows.insert(0, _plain_row("input", input_share, "source" if is_source else "ok"))
    if loss_is_finite is not None:
        status = "ok" if loss_is_finite else ("first" if _is_of_loss(origin) else "carries")
        rows.append(_plain_row("loss", 0.0 if loss_is_finite else 1.0, status))
    return rows


def _is_of_loss(origin: Origin | None) -> bool:
    return origin is not None and origin.name == "loss" and origin.kind == "operation"


def _insert_operation(rows: list[dict[str, Any]], origin: Origin) -> None:
    """Put a row for the code between two modules before the one that received its value."""
    row = _row(f"{origin.name}.forward".removeprefix("."), "module", None, {})
    names = [each["name"] for each in rows]
    at = names.index(origin.before) if origin.before in names else len(rows)
    rows.insert(at, {**row, "status": "first", "is_broken": True})


def _chosen(trace: ForwardTrace) -> list[ModuleReading]:
    """Modules in which no other module ran."""
    return [each for each in trace.readings.values() if each.is_leaf]


def _row(
    name: str, role: str, reading: ModuleReading | None, norms: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    known = norms.get(name, {})
    return {
        "name": name or "model",
        "role": role,
        "status": "ok",
        "bad": None if reading is None else reading.counts.share,
        "is_broken": reading is not None and reading.is_broken,
        "gradient": known.get("gradient"),
        "weight": known.get("weight"),
        "weight_before": known.get("before"),
    }


def _plain_row(name: str, share: float, status: str) -> dict[str, Any]:
    row = _row(name, name, None, {})
    return {**row, "bad": share, "status": status, "is_broken": share > 0}


def _status(row: Mapping[str, Any], origin: Origin | None, first: str | None) -> str:
    """`source`: its weight was not finite before. `first`: the first bad output. `carries`."""
    name = row["name"]
    if origin is not None and origin.kind == "parameter":
        owner = origin.name.rpartition(".")[0] or "model"
        if name == owner:
            return "source"
    if origin is not None and origin.kind == "module" and name == (origin.name or "model"):
        return "first"
    if name == first and (origin is None or origin.kind in ("input", "parameter")):
        return "first"
    return "carries" if row["is_broken"] else "ok"


def _bounded(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """At most 200 rows, the first bad one among them."""
    if len(rows) <= MOST_ROWS:
        return rows
    first = next((at for at, row in enumerate(rows) if row["status"] != "ok"), 0)
    start = max(0, min(first - ROWS_BEFORE_FIRST, len(rows) - MOST_ROWS))
    return rows[start : start + MOST_ROWS]


def _norms_by_module(
    model: nn.Module, saved: Mapping[str, Any] | None
) -> dict[str, dict[str, float | None]]:
    """Norms of gradient and weights of each module's own parameters, now and in the snapshot."""
    norms: dict[str, dict[str, float | None]] = {}
    for name, module in model.named_modules():
        own = list(module.parameters(recurse=False))
        if not own:
            continue
        gradients = [each.grad for each in own if each.grad is not None]
        prefix = f"{name}." if name else ""
        before = [
            (saved or {}).get(f"{prefix}{key}") for key, _ in module.named_parameters(recurse=False)
        ]
        norms[shown_name(name)] = {
            "gradient": norm_of(gradients),
            "weight": norm_of(own),
            "before": norm_of(each for each in before if isinstance(each, Tensor)),
        }
    return norms

"""Curves of several runs over each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from midstep.server.answers import SafetensorsAnswer, StrictAnswer
from midstep.server.asked import Format, catalog_of
from midstep.server.encode import numbers
from midstep.server.models_runs import CurveAxis, CurvesOut
from midstep.server.problems import Refusal

if TYPE_CHECKING:
    from midstep.facts.curves import Curve

router = APIRouter(prefix="/api/v1", tags=["runs"])
MOST_RUNS = 200
_BYTES: dict[int | str, dict[str, Any]] = {
    200: {"content": {"application/octet-stream": {"schema": {"type": "string"}}}}
}


@router.get("/curves", response_model=CurvesOut, responses=_BYTES)
def curves(
    request: Request,
    runs: Annotated[str, Query(max_length=4096, description="Ids of the runs; a,b.")],
    name: Annotated[str, Query(max_length=512, description="Name of the series.")],
    points: Annotated[int, Query(ge=2, le=100_000)] = 500,
    x: CurveAxis = "step",
    format: Format = "json",  # noqa: A002 - the name on the wire
) -> Response:
    """One series of several runs; those that have none, or are not listed, are left out."""
    wanted = list(dict.fromkeys(each for each in runs.split(",") if each))
    if len(wanted) > MOST_RUNS:
        raise Refusal(
            422, "invalid", f"runs: {MOST_RUNS} at a time, got {len(wanted)}", field="runs"
        )
    found = catalog_of(request).curves(wanted, name, x=x, points=points)
    if format == "safetensors":
        return _tensors(found, name, x)
    drawn = {
        run_id: {
            "x": numbers(curve.x),
            "low": numbers(curve.low),
            "high": numbers(curve.high),
            "exact": curve.exact,
            "count": curve.count,
        }
        for run_id, curve in found.items()
    }
    return StrictAnswer({"name": name, "x": x, "curves": drawn})


def _tensors(found: Mapping[str, Curve], name: str, x: str) -> Response:
    """`<id>.x`, `<id>.low`, `<id>.high`, and exactness and counts as metadata."""
    tensors: dict[str, Any] = {}
    metadata = {"name": name, "x": x}
    for run_id, curve in found.items():
        tensors |= {f"{run_id}.{part}": getattr(curve, part) for part in ("x", "low", "high")}
        metadata[f"{run_id}.exact"] = "true" if curve.exact else "false"
        metadata[f"{run_id}.count"] = str(curve.count)
    return SafetensorsAnswer(tensors, metadata)

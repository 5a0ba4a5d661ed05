"""Watches: which rows are followed, and their trajectories."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.responses import Response

from midstep.server.debug.breakpoint_schemas import TrajectoriesOut, WatchIn, WatchOut
from midstep.server.debug.command_schemas import Verb
from midstep.server.dependencies import ControlDependency, Format, RunDependency
from midstep.server.responses import SafetensorsResponse, StrictJsonResponse, json_bytes
from midstep.server.runs.run_view import RunView

router = APIRouter()

MAX_POINTS = 10_000
JSON_POINTS = 200_000
"""Over all series of an answer: some 10 MB of text."""
COLUMN_POINTS = 4_000_000
_BYTES: dict[int | str, dict[str, Any]] = {
    200: {"content": {"application/octet-stream": {"schema": {"type": "string"}}}}
}


@router.get("/watch", response_model=WatchOut)
def watches(run: RunDependency) -> Response:
    """What is watched, and what could be."""
    return StrictJsonResponse(_watches(run))


@router.post("/watch", response_model=WatchOut)
def replace_watches(run: RunDependency, control: ControlDependency, wanted: WatchIn) -> Response:
    """Replace the watch list of a source; trajectories of removed watches stay until cleared."""
    control.replace_watches(wanted.feature_ids, wanted.source)
    return StrictJsonResponse(_watches(run))


@router.get("/trajectories", response_model=TrajectoriesOut, responses=_BYTES)
def trajectories(
    run: RunDependency,
    points: Annotated[int, Query(ge=2, le=MAX_POINTS, description="Most points a series.")] = 2000,
    format: Format = "json",  # noqa: A002 - the name on the wire
) -> Response:
    """Points of every watched row, also of those no longer watched.

    Beyond `points`, and beyond 200,000 points over all series, the first, the last and the
    extremes are sent and the rest evenly thinned. Safetensors hold columns, up to 4,000,000 points.
    """
    if format == "safetensors":
        return _columns(run, points)
    return StrictJsonResponse(_trajectories(run, points))


@router.post("/trajectories/clear", response_model=TrajectoriesOut)
def clear_trajectories(
    run: RunDependency, control: ControlDependency, _: Verb | None = None
) -> Response:
    """Forget all points; what is watched goes on from here."""
    control.clear_trajectories()
    return StrictJsonResponse(_trajectories(run, MAX_POINTS))


def _watches(run: RunView) -> dict[str, Any]:
    watched = run.watches()
    others = dict(watched.rows)
    return {
        "source": watched.source,
        "feature_ids": others.pop(watched.source or "", []),
        "others": others,
        "sources": watched.sources,
    }


def _trajectories(run: RunView, points: int) -> dict[str, Any]:
    """The fields of `TrajectoriesOut`."""
    current, *others = run.trajectories(points=points, in_all=JSON_POINTS)
    return {
        "source": current.source or None,
        **current.describe(),
        "others": {each.source: each.describe() for each in others},
        "exact": all(each.exact for each in (current, *others)),
    }


def _columns(run: RunView, points: int) -> Response:
    """`<source>/<row>.<column>` and `<source>/<a>,<b>.<column>`, with sources by their number.

    The metadata holds the names of the sources in that order, and their watched rows, as JSON.
    """
    import numpy as np

    tracked = run.trajectories(points=points, in_all=COLUMN_POINTS)
    tensors: dict[str, Any] = {}
    for number, each in enumerate(tracked):
        series = {str(row): path for row, path in each.rows.items()}
        series |= {f"{a},{b}": path for (a, b), path in each.pairs.items()}
        for name, path in series.items():
            for column, values in path.columns().items():
                tensors[f"{number}/{name}.{column}"] = np.frombuffer(values, values.typecode)
    metadata = {
        "sources": json_bytes([each.source for each in tracked]).decode(),
        "watched": json_bytes([each.watched for each in tracked]).decode(),
        "exact": "true" if all(each.exact for each in tracked) else "false",
    }
    return SafetensorsResponse(tensors, metadata)

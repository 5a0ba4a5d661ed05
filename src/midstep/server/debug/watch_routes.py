"""Routes of watched rows and their trajectories."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Query
from starlette.responses import Response

from midstep.server.debug.breakpoint_schemas import TrajectoriesOut, WatchIn, WatchOut
from midstep.server.debug.command_schemas import Verb
from midstep.server.dependencies import ControlDependency, Format, RunDependency
from midstep.server.responses import BINARY, SafetensorsResponse, StrictJsonResponse, json_bytes
from midstep.server.runs.run_view import RunView

router = APIRouter()

MAX_POINTS = 10_000
JSON_POINTS = 200_000
"""Most points over all series of a JSON response: some 10 MB of text."""
COLUMN_POINTS = 4_000_000
"""Most points over all series as safetensors."""


@router.get("/watch", response_model=WatchOut)
def watches(run: RunDependency) -> Response:
    """Which rows are watched, and which sources have rows to watch."""
    return StrictJsonResponse(run.watches())


@router.post("/watch", response_model=WatchOut)
def replace_watches(run: RunDependency, control: ControlDependency, body: WatchIn) -> Response:
    """Replace the watched rows of a source. Points of the other rows stay until cleared."""
    control.watches.replace(body.feature_ids, body.source)
    return StrictJsonResponse(run.watches())


@router.get("/trajectories", response_model=TrajectoriesOut, responses=BINARY)
def trajectories(
    run: RunDependency,
    points: Annotated[
        int, Query(ge=2, le=MAX_POINTS, description="Most points of one series.")
    ] = 2000,
    format: Format = "json",  # noqa: A002 - the name on the wire
) -> Response:
    """Points of every watched row, also of rows that are no longer watched.

    A series with more than `points` points, or more than its share of 200,000 points over all
    series, is thinned evenly; its first and last points and its extremes stay. As safetensors:
    columns, up to 4,000,000 points.
    """
    if format == "safetensors":
        return _columns(run, points)
    return StrictJsonResponse(_trajectories(run, points))


@router.post("/trajectories/clear", response_model=TrajectoriesOut)
def clear_trajectories(
    run: RunDependency, control: ControlDependency, _: Verb | None = None
) -> Response:
    """Delete all points. The rows stay watched."""
    control.clear_trajectories()
    return StrictJsonResponse(_trajectories(run, MAX_POINTS))


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
    """Tensors `<source>/<row>.<column>` and `<source>/<a>,<b>.<column>`; sources are numbers.

    The metadata has the names of the sources in that order, and their watched rows, as JSON.
    """
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

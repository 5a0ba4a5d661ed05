"""Watches: which rows are followed, and their trajectories."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.responses import Response

from midstep.server.answers import SafetensorsAnswer, StrictAnswer, json_bytes
from midstep.server.asked import Format, OpenRun, RunOf
from midstep.server.models import Verb
from midstep.server.models_breakpoints import TrajectoriesOut, WatchIn, WatchOut
from midstep.server.run_table import RunEntry

router = APIRouter()

MAX_POINTS = 10_000
JSON_POINTS = 200_000
"""Over all series of an answer: some 10 MB of text."""
COLUMN_POINTS = 4_000_000
_BYTES: dict[int | str, dict[str, Any]] = {
    200: {"content": {"application/octet-stream": {"schema": {"type": "string"}}}}
}


@router.get("/watch", response_model=WatchOut)
def watches(run: RunOf) -> Response:
    """What is watched, and what could be."""
    return StrictAnswer(_watches(run))


@router.post("/watch", response_model=WatchOut)
def replace_watches(run: OpenRun, wanted: WatchIn) -> Response:
    """Replace the watch list of a source; trajectories of removed watches stay until cleared."""
    run.controller.set_watches(wanted.feature_ids, wanted.source)
    return StrictAnswer(_watches(run))


@router.get("/trajectories", response_model=TrajectoriesOut, responses=_BYTES)
def trajectories(
    run: RunOf,
    points: Annotated[int, Query(ge=2, le=MAX_POINTS, description="Most points a series.")] = 2000,
    format: Format = "json",  # noqa: A002 - the name on the wire
) -> Response:
    """Points of every watched row, also of those no longer watched.

    Beyond `points`, and beyond 200,000 points over all series, the first, the last and the
    extremes are sent and the rest evenly thinned. Safetensors hold columns, up to 4,000,000 points.
    """
    if format == "safetensors":
        return _columns(run, points)
    found = run.controller.export_trajectories(points=points, in_all=JSON_POINTS)
    return StrictAnswer(found)


@router.post("/trajectories/clear", response_model=TrajectoriesOut)
def clear_trajectories(run: OpenRun, _: Verb | None = None) -> Response:
    """Forget all points; what is watched goes on from here."""
    run.controller.clear_trajectories()
    return StrictAnswer(run.controller.export_trajectories())


def _watches(run: RunEntry) -> dict[str, Any]:
    controller = run.controller
    by_source, source = controller.get_watched_by_source(), controller.watch_source
    return {
        "source": source,
        "feature_ids": by_source.pop(source or "", []),
        "others": by_source,
        "sources": list(controller.sources),
    }


def _columns(run: RunEntry, points: int) -> Response:
    """`<source>/<row>.<column>` and `<source>/<a>,<b>.<column>`, with sources by their number.

    The metadata holds the names of the sources in that order, and their watched rows, as JSON.
    """
    import numpy as np

    found = run.controller.copy_trajectories(points=points, in_all=COLUMN_POINTS)
    tensors: dict[str, Any] = {}
    for number, each in enumerate(found):
        series = {str(row): path for row, path in each.rows.items()}
        series |= {f"{a},{b}": path for (a, b), path in each.pairs.items()}
        for name, path in series.items():
            for column, values in path.columns().items():
                tensors[f"{number}/{name}.{column}"] = np.frombuffer(values, values.typecode)
    metadata = {
        "sources": json_bytes([each.source for each in found]).decode(),
        "watched": json_bytes([each.watched for each in found]).decode(),
        "exact": "true" if all(each.exact for each in found) else "false",
    }
    return SafetensorsAnswer(tensors, metadata)

"""Runs and their facts: list, header, series, events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import Response

from midstep.server.array_json import numbers
from midstep.server.auth.redaction import redact
from midstep.server.dependencies import (
    CanControl,
    Format,
    RunDependency,
    catalog_of,
    declare_run_id,
)
from midstep.server.problems import Refusal
from midstep.server.responses import SafetensorsResponse, StrictJsonResponse
from midstep.server.runs.run_schemas import (
    CurveAxis,
    CurvesOut,
    EventsOut,
    RunDetail,
    RunList,
    ScalarsOut,
)

if TYPE_CHECKING:
    from midstep.facts import Series
    from midstep.facts.index.run_query import RunPage


router = APIRouter(prefix="/api/v1", tags=["runs"])
_BY_ID = [Depends(declare_run_id)]
_BYTES: dict[int | str, dict[str, Any]] = {
    200: {"content": {"application/octet-stream": {"schema": {"type": "string"}}}}
}
MAX_POINTS = 1_000_000
StepBound = Annotated[int | None, Query(ge=0, le=10**15)]


@router.get("/runs", response_model=RunList)
def runs(
    request: Request,
    controls: CanControl,
    q: Annotated[str, Query(max_length=200, description="Words that all occur.")] = "",
    state: Annotated[str, Query(max_length=400, description="Any of these; a,b.")] = "",
    tag: Annotated[list[str] | None, Query(max_length=32, description="All of these.")] = None,
    where: Annotated[
        list[str] | None,
        Query(max_length=20, description="`config.lr=0.1`, also with != < <= > >=."),
    ] = None,
    sort: Annotated[
        str, Query(max_length=200, description="A field, `config.KEY`, `summary.NAME`; -: down.")
    ] = "-started_at",
    group: Annotated[str | None, Query(max_length=200, description="A key, as in sort.")] = None,
    columns: Annotated[
        str | None,
        Query(max_length=8192, description="Only these settings and values; a,b."),
    ] = None,
    offset: Annotated[int, Query(ge=0, le=10**9)] = 0,
    limit: Annotated[int, Query(ge=0, le=10_000)] = 1000,
) -> Response:
    """The runs this server knows, newest first unless asked otherwise."""
    from midstep.facts.index.run_query import RunQuery

    query = RunQuery(
        q=q,
        states=_split(state),
        tags=tuple(part for each in tag or () for part in _split(each)),
        where=tuple(where or ()),
        sort=sort,
        group=group or None,
        columns=None if columns is None else _split(columns),
        offset=offset,
        limit=limit,
    )
    page = catalog_of(request).list(query)
    can_start = controls and getattr(request.app.state, "launcher", None) is not None
    return StrictJsonResponse({**page_dict(page), "can_start": can_start})


def _split(text: str) -> tuple[str, ...]:
    return tuple(part for part in text.split(",") if part)


def page_dict(page: RunPage) -> dict[str, Any]:
    """A page of runs as `RunList`, all but `can_start`."""
    groups = None if page.groups is None else [asdict(group) for group in page.groups]
    return {
        "runs": [row.as_wire() for row in page.rows],
        "total": page.total,
        "matching": page.matching,
        "states": page.states,
        "groups": groups,
        "columns": {"config": page.config_columns, "summary": page.summary_columns},
    }


@router.get("/runs/{run_id}", response_model=RunDetail, dependencies=_BY_ID)
def run_detail(request: Request, run: RunDependency, controls: CanControl) -> Response:
    """One run with its header record; who only looks is not told command line and folder."""
    return StrictJsonResponse(
        {
            **catalog_of(request).row(run.id),
            "header": run.header() if controls else redact(run.header()),
            "commands": run.command_names(),
        }
    )


@router.get(
    "/runs/{run_id}/scalars", response_model=ScalarsOut, responses=_BYTES, dependencies=_BY_ID
)
def scalars(
    run: RunDependency,
    names: Annotated[
        str | None, Query(max_length=4096, description="Comma-separated; all when left out.")
    ] = None,
    points: Annotated[int, Query(ge=2, le=MAX_POINTS)] = 2000,
    start: StepBound = None,
    stop: StepBound = None,
    format: Format = "json",  # noqa: A002 - the name on the wire
) -> Response:
    """Series of the run: exact points, or min/max buckets beyond `points`."""
    found = run.with_series(
        lambda store: {
            "seq": int(store.seq),
            "timeline": int(store.timeline),
            "series": {
                name: store.series(name, start=start, stop=stop, points=points)
                for name in _asked(names, list(store.names))
            },
        }
    )
    return _series_tensors(found) if format == "safetensors" else _series_json(found)


def _asked(text: str | None, names: list[str]) -> list[str]:
    """The asked names that exist; a name may itself hold a comma, then it is asked for alone."""
    if text is None:
        return names
    wanted = [text] if text in names else text.split(",")
    return [name for name in wanted if name in set(names)]


def _series_json(found: dict[str, Any]) -> Response:
    series = {
        name: {
            "step": each.step.tolist(),
            "low": numbers(each.low),
            "high": numbers(each.high),
            "exact": bool(each.exact),
            "count": int(each.count),
        }
        for name, each in found["series"].items()
    }
    return StrictJsonResponse({**found, "series": series})


def _series_tensors(found: dict[str, Any]) -> Response:
    """`<name>.step`, `<name>.low`, `<name>.high`, and exactness and counts as metadata."""
    tensors: dict[str, Any] = {}
    metadata = {"seq": str(found["seq"]), "timeline": str(found["timeline"])}
    for name, each in found["series"].items():
        tensors[f"{name}.step"] = each.step
        tensors[f"{name}.low"] = each.low
        tensors[f"{name}.high"] = each.high
        metadata[f"{name}.exact"] = "true" if each.exact else "false"
        metadata[f"{name}.count"] = str(each.count)
    return SafetensorsResponse(tensors, metadata)


@router.get("/runs/{run_id}/events", response_model=EventsOut, dependencies=_BY_ID)
def events(
    run: RunDependency,
    controls: CanControl,
    after_seq: Annotated[int, Query(ge=0, le=2**62)] = 0,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 1000,
) -> Response:
    """Lifecycle records and interventions, in order."""
    found = run.events(after_seq, limit + 1)
    shown = found[:limit] if controls else [redact(each) for each in found[:limit]]
    last = int(shown[-1]["seq"]) if shown else after_seq
    return StrictJsonResponse({"events": shown, "seq": last, "more": len(found) > limit})


MOST_RUNS = 200


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
    return StrictJsonResponse({"name": name, "x": x, "curves": drawn})


def _tensors(found: Mapping[str, Series], name: str, x: str) -> Response:
    """`<id>.x`, `<id>.low`, `<id>.high`, and exactness and counts as metadata."""
    tensors: dict[str, Any] = {}
    metadata = {"name": name, "x": x}
    for run_id, curve in found.items():
        tensors |= {f"{run_id}.{part}": getattr(curve, part) for part in ("x", "low", "high")}
        metadata[f"{run_id}.exact"] = "true" if curve.exact else "false"
        metadata[f"{run_id}.count"] = str(curve.count)
    return SafetensorsResponse(tensors, metadata)

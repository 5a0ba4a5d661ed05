"""Routes of runs and their facts: list, header, series, events, curves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import Response

from midstep.facts import Series
from midstep.facts.index.curves import Axis
from midstep.facts.index.run_query import RunPage, RunQuery
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
from midstep.server.responses import BINARY, SafetensorsResponse, StrictJsonResponse
from midstep.server.runs.run_schemas import (
    CurvesOut,
    EventsOut,
    RunDetail,
    RunList,
    ScalarsOut,
)

router = APIRouter(prefix="/api/v1", tags=["runs"])
_BY_ID = [Depends(declare_run_id)]
MAX_POINTS = 1_000_000
MOST_RUNS = 200
"""Runs of one comparison of curves."""
StepBound = Annotated[int | None, Query(ge=0, le=10**15)]


@router.get("/runs", response_model=RunList)
def runs(
    request: Request,
    controls: CanControl,
    q: Annotated[str, Query(max_length=200, description="Words that must all occur.")] = "",
    state: Annotated[str, Query(max_length=400, description="One of these states; a,b.")] = "",
    tag: Annotated[list[str] | None, Query(max_length=32, description="Tags, all of them.")] = None,
    where: Annotated[
        list[str] | None,
        Query(max_length=20, description="A condition: `config.lr=0.1`, also with != < <= > >=."),
    ] = None,
    sort: Annotated[
        str,
        Query(
            max_length=200,
            description="A field, `config.KEY` or `summary.NAME`; with - the largest first.",
        ),
    ] = "-started_at",
    group: Annotated[str | None, Query(max_length=200, description="A key, as in sort.")] = None,
    columns: Annotated[
        str | None,
        Query(max_length=8192, description="Send only these settings and values; a,b."),
    ] = None,
    offset: Annotated[int, Query(ge=0, le=10**9)] = 0,
    limit: Annotated[int, Query(ge=0, le=10_000)] = 1000,
) -> Response:
    """The runs of this server, newest first unless `sort` is given."""
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
    can_start = controls and request.app.state.launcher is not None
    has_stream = request.app.state.list_stream is not None
    return StrictJsonResponse({**page_dict(page), "can_start": can_start, "has_stream": has_stream})


def _split(text: str) -> tuple[str, ...]:
    return tuple(part for part in text.split(",") if part)


def page_dict(page: RunPage) -> dict[str, Any]:
    """A page of runs as `RunList`, without `can_start` and `has_stream`."""
    return {
        "runs": [row.as_wire() for row in page.rows],
        "total": page.total,
        "matching": page.matching,
        "states": page.states,
        "groups": page.groups and [asdict(group) for group in page.groups],
        "columns": {"config": page.config_columns, "summary": page.summary_columns},
    }


@router.get("/runs/{run_id}", response_model=RunDetail, dependencies=_BY_ID)
def run_detail(request: Request, run: RunDependency, controls: CanControl) -> Response:
    """One run with its header record; a viewer token gets no command line and folder."""
    return StrictJsonResponse(
        {
            **catalog_of(request).row(run.id),
            "header": run.header() if controls else redact(run.header()),
            "commands": run.command_names(),
        }
    )


@router.get(
    "/runs/{run_id}/scalars", response_model=ScalarsOut, responses=BINARY, dependencies=_BY_ID
)
def scalars(
    run: RunDependency,
    names: Annotated[
        str | None, Query(max_length=4096, description="Names with commas; all when left out.")
    ] = None,
    points: Annotated[int, Query(ge=2, le=MAX_POINTS)] = 2000,
    start: StepBound = None,
    stop: StepBound = None,
    timeline: Annotated[
        int | None,
        Query(ge=0, le=10**9, description="As it was in that timeline; else the present one."),
    ] = None,
    format: Format = "json",  # noqa: A002 - the name on the wire
) -> Response:
    """Series of the run: exact points, or min/max buckets if there are more than `points`."""
    path = None if timeline is None else run.with_facts(lambda facts: facts.path_of(timeline))
    seq, present, series = run.with_series(
        lambda store: (
            int(store.seq),
            int(store.timeline),
            {
                name: store.series(name, start=start, stop=stop, points=points, path=path)
                for name in _select_names(names, list(store.names))
            },
        )
    )
    if format == "safetensors":
        return _tensors(series, "step", {"seq": str(seq), "timeline": str(present)})
    return StrictJsonResponse({"seq": seq, "timeline": present, "series": _json(series, "step")})


def _select_names(text: str | None, names: list[str]) -> list[str]:
    """The requested names that exist. A name with a comma in it must be requested alone."""
    if text is None:
        return names
    requested = [text] if text in names else text.split(",")
    return [name for name in requested if name in set(names)]


def _json(series: Mapping[str, Series], axis: str) -> dict[str, Any]:
    return {
        name: {
            axis: numbers(each.x),
            "low": numbers(each.low),
            "high": numbers(each.high),
            "exact": bool(each.exact),
            "count": int(each.count),
        }
        for name, each in series.items()
    }


def _tensors(series: Mapping[str, Series], axis: str, metadata: dict[str, str]) -> Response:
    """`<name>.<axis>`, `<name>.low`, `<name>.high`; exactness and counts are metadata."""
    tensors: dict[str, Any] = {}
    for name, each in series.items():
        tensors |= {f"{name}.{axis}": each.x, f"{name}.low": each.low, f"{name}.high": each.high}
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
    records = run.with_facts(
        lambda facts: facts.events(after_seq, limit + 1)
    )  # one more: is there more?
    shown = records[:limit] if controls else [redact(each) for each in records[:limit]]
    last = int(shown[-1]["seq"]) if shown else after_seq
    return StrictJsonResponse({"events": shown, "seq": last, "more": len(records) > limit})


@router.get("/curves", response_model=CurvesOut, responses=BINARY)
def curves(
    request: Request,
    runs: Annotated[str, Query(max_length=4096, description="Ids of the runs; a,b.")],
    name: Annotated[str, Query(max_length=512, description="Name of the series.")],
    points: Annotated[int, Query(ge=2, le=100_000)] = 500,
    x: Axis = "step",
    format: Format = "json",  # noqa: A002 - the name on the wire
) -> Response:
    """One series of several runs; runs without it and unknown runs are left out."""
    run_ids = list(dict.fromkeys(each for each in runs.split(",") if each))
    if len(run_ids) > MOST_RUNS:
        raise Refusal(
            422, "invalid", f"runs: at most {MOST_RUNS} ids, got {len(run_ids)}", field="runs"
        )
    series = catalog_of(request).curves(run_ids, name, x=x, points=points)
    if format == "safetensors":
        return _tensors(series, "x", {"name": name, "x": x})
    return StrictJsonResponse({"name": name, "x": x, "curves": _json(series, "x")})

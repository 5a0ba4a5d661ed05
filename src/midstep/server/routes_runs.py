"""Runs and their facts: list, header, series, events."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import Response

from midstep.server.answers import SafetensorsAnswer, StrictAnswer
from midstep.server.asked import CanControl, Format, RunOf, declare_run_id, table_of
from midstep.server.encode import numbers
from midstep.server.models import EventsOut, RunDetail, RunList, ScalarsOut
from midstep.server.run_table import ENDED, RunEntry
from midstep.server.withheld import without_private

router = APIRouter(prefix="/api/v1/runs", tags=["runs"])
_BY_ID = [Depends(declare_run_id)]
_BYTES: dict[int | str, dict[str, Any]] = {
    200: {"content": {"application/octet-stream": {"schema": {"type": "string"}}}}
}
MAX_POINTS = 1_000_000
StepBound = Annotated[int | None, Query(ge=0, le=10**15)]


@router.get("", response_model=RunList)
def runs(request: Request) -> Response:
    """The runs this server reaches, newest first."""
    found = [_run_dict(entry) for entry in table_of(request).entries()]
    return StrictAnswer({"runs": found, "total": len(found)})


@router.get("/{run_id}", response_model=RunDetail, dependencies=_BY_ID)
def run_detail(run: RunOf, controls: CanControl) -> Response:
    """One run with its header record; who only looks is not told command line and folder."""
    return StrictAnswer(
        {
            **_run_dict(run),
            "header": run.header() if controls else without_private(run.header()),
            "commands": sorted(run.controller.registry),
        }
    )


@router.get("/{run_id}/scalars", response_model=ScalarsOut, responses=_BYTES, dependencies=_BY_ID)
def scalars(
    run: RunOf,
    names: Annotated[
        str | None, Query(max_length=4096, description="Comma-separated; all when left out.")
    ] = None,
    points: Annotated[int, Query(ge=2, le=MAX_POINTS)] = 2000,
    start: StepBound = None,
    stop: StepBound = None,
    format: Format = "json",  # noqa: A002 - the name on the wire
) -> Response:
    """Series of the run: exact points, or min/max buckets beyond `points`."""
    found = run.with_store(
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
    return StrictAnswer({**found, "series": series})


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
    return SafetensorsAnswer(tensors, metadata)


@router.get("/{run_id}/events", response_model=EventsOut, dependencies=_BY_ID)
def events(
    run: RunOf,
    controls: CanControl,
    after_seq: Annotated[int, Query(ge=0, le=2**62)] = 0,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 1000,
) -> Response:
    """Lifecycle records and interventions, in order."""
    found = run.events(after_seq, limit + 1)
    shown = found[:limit] if controls else [without_private(each) for each in found[:limit]]
    last = int(shown[-1]["seq"]) if shown else after_seq
    return StrictAnswer({"events": shown, "seq": last, "more": len(found) > limit})


def _run_dict(entry: RunEntry) -> dict[str, Any]:
    """A run as `RunOut`."""
    state = entry.state()
    return {
        "id": entry.id,
        "name": entry.run.name,
        "directory": entry.run.dir.name,
        "state": state["state"],
        "live": state["state"] not in ENDED,
        "step": state["step"],
        "total_steps": state["total_steps"],
        "started_at": entry.run.started_at,
        "attempt": entry.run.facts.attempt,
        "timeline": state["timeline"],
        "scalars": entry.with_store(lambda store: list(store.names)),
    }

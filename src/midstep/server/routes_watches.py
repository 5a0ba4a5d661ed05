"""Watches: which rows are followed, and their trajectories."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from midstep.server.answers import StrictAnswer
from midstep.server.asked import RunOf
from midstep.server.models import TrajectoriesOut, Verb, WatchIn, WatchOut
from midstep.server.run_table import RunEntry

router = APIRouter()


@router.get("/watch", response_model=WatchOut)
def watches(run: RunOf) -> Response:
    """What is watched, and what could be."""
    return StrictAnswer(_watches(run))


@router.post("/watch", response_model=WatchOut)
def replace_watches(run: RunOf, wanted: WatchIn) -> Response:
    """Replace the watch list; trajectories of removed watches stay until cleared."""
    run.controller.set_watches(wanted.feature_ids, wanted.source)
    return StrictAnswer(_watches(run))


@router.get("/trajectories", response_model=TrajectoriesOut)
def trajectories(run: RunOf) -> Response:
    """Points of every watched row, also of those no longer watched."""
    return StrictAnswer(run.controller.export_trajectories())


@router.post("/trajectories/clear", response_model=TrajectoriesOut)
def clear_trajectories(run: RunOf, _: Verb | None = None) -> Response:
    """Forget all points; what is watched goes on from here."""
    run.controller.clear_trajectories()
    return StrictAnswer(run.controller.export_trajectories())


def _watches(run: RunEntry) -> dict[str, Any]:
    controller = run.controller
    return {
        "source": controller.watch_source,
        "feature_ids": list(controller.get_watched()),
        "sources": list(controller.sources),
    }

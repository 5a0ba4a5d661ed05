"""Routes that label and delete a run, and the route of its lineage."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from midstep.core import strict_json
from midstep.core.errors import FormatError, MidstepError, RunHeldError
from midstep.core.files.untrusted_files import read_plain
from midstep.core.moments import Moment
from midstep.facts import FactsReader, deletion
from midstep.facts.index.labels import write_labels
from midstep.facts.index.run_query import RunQuery
from midstep.server.dependencies import catalog_of, declare_run_id
from midstep.server.problems import Refusal
from midstep.server.responses import StrictJsonResponse
from midstep.server.runs.run_file_routes import RunFolder
from midstep.server.runs.run_schemas import DeletedOut, DeleteIn, LabelsIn, LineageOut, RunOut

router = APIRouter(prefix="/api/v1/runs/{run_id}", tags=["runs"])
RunId = Annotated[str, Depends(declare_run_id)]


@router.patch("", response_model=RunOut)
def label_run(request: Request, run_id: RunId, folder: RunFolder, labels: LabelsIn) -> Response:
    """Replace the tags or the note of a run. A field that is left out stays as it is."""
    write_labels(folder, tags=labels.tags, note=labels.note)
    catalog = catalog_of(request)
    catalog.mark_stale()
    return StrictJsonResponse(catalog.row(run_id))


@router.delete("", response_model=DeletedOut)
def delete_run(request: Request, run_id: RunId, folder: RunFolder, body: DeleteIn) -> Response:
    """Delete the files that midstep wrote; other files stay and are named. 409 for a live run."""
    catalog = catalog_of(request)
    directory = catalog.row(run_id)["directory"]
    if body.confirm not in (directory, directory.rpartition("/")[2]):
        raise Refusal(
            422,
            "unconfirmed",
            f"confirm: type the name of the run's directory, {directory}, to delete it.",
            field="confirm",
        )
    try:
        result = deletion.delete_run(folder)
    except RunHeldError as error:
        # The error names the path of the folder, which the page must not show.
        message = str(error).replace(str(folder), folder.name)
        raise Refusal(409, "live", message) from error
    finally:
        catalog.mark_stale()
    return StrictJsonResponse(vars(result))


@router.get("/lineage", response_model=LineageOut)
def lineage(request: Request, run_id: RunId, folder: RunFolder) -> Response:
    """The timelines of the run, the run it was forked from, and the runs forked from it."""
    catalog = catalog_of(request)
    row = catalog.row(run_id)
    rows = catalog.list(RunQuery(limit=2**31)).rows
    return StrictJsonResponse(
        {
            "timelines": _timelines(folder),
            "parent": row["parent"],
            "children": [other.id for other in rows if other.parent == run_id],
        }
    )


def _timelines(folder: Path) -> list[dict[str, Any]]:
    """The first timeline and one for each rewind, with the interventions made in it."""
    interventions = _read_interventions(folder)
    first: dict[str, Any] = {"timeline": 0, "from_step": None, "at": None, "why": None}
    timelines = [first]
    try:
        events = FactsReader(folder).events()
    except MidstepError:  # a damaged run is shown as far as it can be read
        return timelines
    for event in events:
        if event["moment"] == Moment.INTERVENTION and event.get("kind") == "rewind":
            words = [f"by {event['who']}"] if isinstance(event.get("who"), str) else []
            words += interventions.get(event["timeline"], [])
            timelines.append(
                {
                    "timeline": event["timeline"],
                    "from_step": event.get("step"),
                    "at": event["wall"],
                    "why": ", ".join(words) or None,
                }
            )
    return timelines


def _read_interventions(folder: Path) -> dict[int, list[str]]:
    """The interventions of each timeline in `lineage.json`, in words."""
    try:
        lineage = strict_json.loads(read_plain(folder / "lineage.json"))
        return {
            edge["timeline"]: [_describe(each) for each in edge["interventions"]]
            for edge in lineage["edges"]
            if edge["kind"] == "timeline"
        }
    except (OSError, FormatError, KeyError, TypeError):
        return {}


def _describe(intervention: Mapping[str, Any]) -> str:
    fields = {name: value for name, value in intervention.items() if name not in ("step", "kind")}
    text = " ".join(f"{name} {strict_json.dumps(value)}" for name, value in fields.items())
    return f"{intervention['kind']} {text}".strip() + f" at step {intervention['step']}"

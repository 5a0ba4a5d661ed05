"""What people do with a run that has been: tags and a note, where it comes from, deleting it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from fastapi import Path as InPath
from starlette.responses import Response

from midstep.core import strict_json
from midstep.core.errors import FormatError, MidstepError, RunHeldError
from midstep.server.dependencies import catalog_of, declare_run_id
from midstep.server.problems import Refusal
from midstep.server.responses import StrictJsonResponse
from midstep.server.runs.run_file_routes import RunFolder
from midstep.server.runs.run_schemas import DeletedOut, DeleteIn, LabelsIn, LineageOut, RunOut

router = APIRouter(prefix="/api/v1/runs", tags=["runs"])
_BY_ID = [Depends(declare_run_id)]
RunId = Annotated[str, InPath(description="Id of the run, as GET /api/v1/runs lists it.")]


@router.patch("/{run_id}", response_model=RunOut, dependencies=_BY_ID)
def label_run(request: Request, run_id: RunId, folder: RunFolder, labels: LabelsIn) -> Response:
    """Replace the tags or the note of a run; what is left out stays."""
    from midstep.facts.index.labels import write_labels

    write_labels(folder, tags=labels.tags, note=labels.note)
    catalog = catalog_of(request)
    catalog.look()
    return StrictJsonResponse(catalog.row(run_id))


@router.delete("/{run_id}", response_model=DeletedOut, dependencies=_BY_ID)
def delete_run(request: Request, run_id: RunId, folder: RunFolder, asked: DeleteIn) -> Response:
    """Delete what is the run's own; foreign files stay and are named. 409 while it is live."""
    from midstep.facts import deletion

    catalog = catalog_of(request)
    directory = catalog.row(run_id)["directory"]
    if asked.confirm not in (directory, directory.rpartition("/")[2]):
        raise Refusal(
            422,
            "unconfirmed",
            f"confirm: type the name of the run's directory, {directory}, to delete it.",
            field="confirm",
        )
    try:
        found = deletion.delete_run(folder)
    except RunHeldError as error:
        said = str(error).replace(str(folder), folder.name)
        raise Refusal(409, "live", said) from error
    finally:
        catalog.look()
    return StrictJsonResponse(
        {
            "removed_bytes": found.removed_bytes,
            "removed_files": found.removed_files,
            "kept": found.kept,
        }
    )


@router.get("/{run_id}/lineage", response_model=LineageOut, dependencies=_BY_ID)
def lineage(request: Request, run_id: RunId, folder: RunFolder) -> Response:
    """How often the run was taken back and why, what it was forked from, and what from it."""
    from midstep.facts.index.run_query import RunQuery

    catalog = catalog_of(request)
    row = catalog.row(run_id)
    everyone = catalog.list(RunQuery(limit=2**31)).rows
    return StrictJsonResponse(
        {
            "timelines": _timelines(folder),
            "parent": row["parent"],
            "children": [other.id for other in everyone if other.parent == run_id],
        }
    )


def _timelines(folder: Path) -> list[dict[str, Any]]:
    """The beginning, and one for each rewind, with what was changed by hand in it."""
    from midstep.core.moments import Moment
    from midstep.facts import FactsReader

    changed = _changed_by_hand(folder)
    first: dict[str, Any] = {"timeline": 0, "from_step": None, "at": None, "why": None}
    found = [first]
    try:
        events = FactsReader(folder).events()
    except MidstepError:  # a damaged run is told as far as it can be
        return found
    for event in events:
        if event["moment"] == Moment.INTERVENTION and event.get("kind") == "rewind":
            words = [f"by {event['who']}"] if isinstance(event.get("who"), str) else []
            words += changed.get(event["timeline"], [])
            found.append(
                {
                    "timeline": event["timeline"],
                    "from_step": event.get("step"),
                    "at": event["wall"],
                    "why": ", ".join(words) or None,
                }
            )
    return found


def _changed_by_hand(folder: Path) -> dict[int, list[str]]:
    """What `lineage.json` says of each timeline, in words."""
    from midstep.core.files.untrusted_files import read_plain

    try:
        kept = strict_json.loads(read_plain(folder / "lineage.json"))
        return {
            edge["timeline"]: list(_words(edge["interventions"]))
            for edge in kept["edges"]
            if edge["kind"] == "timeline"
        }
    except (OSError, FormatError, KeyError, TypeError):
        return {}


def _words(interventions: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    for each in interventions:
        what = {name: value for name, value in each.items() if name not in ("step", "kind")}
        told = " ".join(f"{name} {strict_json.dumps(value)}" for name, value in what.items())
        yield f"{each['kind']} {told}".strip() + f" at step {each['step']}"

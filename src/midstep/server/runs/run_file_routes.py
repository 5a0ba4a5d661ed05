"""Routes of a run directory: files, console, labels, lineage, deletion.

A request names a file by an id from the listing, never by a path. Pictures are sent as pictures,
all other files as bytes to save. Files and the console may contain secrets, so a viewer token gets
figures only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, BinaryIO
from urllib.parse import quote

from fastapi import APIRouter, Depends, Query, Request
from fastapi import Path as InPath
from starlette.responses import Response, StreamingResponse

from midstep.core import strict_json
from midstep.core.errors import MidstepError, RunHeldError
from midstep.core.files.untrusted_files import FILE_ERRORS, open_plain, read_plain
from midstep.core.moments import Moment
from midstep.facts import FactsReader, deletion
from midstep.facts.format.paths import LARGEST_LINEAGE_BYTES, LINEAGE
from midstep.facts.format.run_files import RunFile, list_files
from midstep.facts.index.labels import write_labels
from midstep.facts.index.run_query import RunQuery
from midstep.facts.read.console_text import read_console
from midstep.server.dependencies import CanControl, catalog_of, declare_run_id
from midstep.server.problems import Refusal, not_found
from midstep.server.responses import BINARY, StrictJsonResponse
from midstep.server.runs.kept_step import named_step
from midstep.server.runs.run_schemas import (
    ConsoleOut,
    DeletedOut,
    DeleteIn,
    FilesOut,
    LabelsIn,
    LineageOut,
    RunOut,
)
from midstep.server.step_views.kept_answers import StopId

RunId = Annotated[str, Depends(declare_run_id)]
router = APIRouter(
    prefix="/api/v1/runs/{run_id}", tags=["runs"], dependencies=[Depends(declare_run_id)]
)
CONSOLE_BYTES = 256 << 10
"""Most bytes of the console in one response."""
MOST_FILES = 20_000
"""Files that are listed; sizes are counted over all."""
CHUNK_BYTES = 256 << 10
_PICTURES = {".png": "image/png", ".svg": "image/svg+xml"}
FILES_VIEW_ONLY = (
    "This link is view-only: it shows the run and its figures. "
    "Ask for a link that can control the run."
)


def directory_of(request: Request) -> Path:
    """The directory of the run in the address, found in the listing."""
    directory = catalog_of(request).directory(request.path_params["run_id"])
    if directory is None:
        raise not_found()
    return directory


RunFolder = Annotated[Path, Depends(directory_of)]


@router.get("/files", response_model=FilesOut)
def files(folder: RunFolder) -> Response:
    """Every file of the run directory; links are counted, not listed."""
    all_files = list(list_files(folder))
    plain = [file for file in all_files if file.is_plain]
    return StrictJsonResponse(
        {
            "files": [_file_dict(file) for file in plain[:MOST_FILES]],
            "bytes": sum(file.bytes for file in plain),
            "own_bytes": sum(file.bytes for file in plain if file.is_ours),
            "foreign": sum(not file.is_ours for file in all_files),
        }
    )


def _file_dict(file: RunFile) -> dict[str, Any]:
    return {
        "id": file.id,
        "path": file.path,
        "bytes": file.bytes,
        "kind": file.kind,
        "own": file.is_ours,
        "modified_at": file.modified_at,
    }


@router.get("/files/{file_id}", response_class=StreamingResponse, responses=BINARY)
def file_content(
    folder: RunFolder,
    controls: CanControl,
    file_id: Annotated[str, InPath(max_length=64, description="The id in the list of files.")],
) -> Response:
    """One file: a picture as a picture, any other file as bytes to save."""
    listed = next(
        (file for file in list_files(folder) if file.is_plain and file.id == file_id), None
    )
    if listed is None:
        raise not_found()
    if not (controls or listed.kind == "figure"):
        raise Refusal(403, "view_only", FILES_VIEW_ONLY)
    # Opened before the response starts, so that a file that is gone is still a 404.
    try:
        context = open_plain(folder, *listed.path.split("/"))
        file = context.__enter__()
    except OSError:
        raise not_found() from None
    return StreamingResponse(
        _pieces(context, file, listed.bytes),
        media_type=_PICTURES.get(Path(listed.path).suffix, "application/octet-stream"),
        headers=_headers(listed),
    )


def _pieces(context: Any, file: BinaryIO, size: int) -> Iterator[bytes]:
    """Exactly the bytes that the listing counted, also if the file grows meanwhile."""
    try:
        left = size
        while left > 0 and (piece := file.read(min(CHUNK_BYTES, left))):
            left -= len(piece)
            yield piece
    finally:
        context.__exit__(None, None, None)


def _headers(file: RunFile) -> dict[str, str]:
    """Headers under which an SVG runs no script, and other files are only saved."""
    name = quote(Path(file.path).name.encode("utf-8", "replace"), safe="")
    kind = "inline" if Path(file.path).suffix in _PICTURES else "attachment"
    return {
        "content-disposition": f"{kind}; filename*=UTF-8''{name}",
        "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox",
    }


@router.get("/console", response_model=ConsoleOut)
def console(
    folder: RunFolder,
    controls: CanControl,
    after: Annotated[
        int | None, Query(ge=0, le=2**62, description="Text from this byte offset on.")
    ] = None,
    tail: Annotated[
        int, Query(ge=0, le=CONSOLE_BYTES, description="Last bytes, if `after` is left out.")
    ] = 64 << 10,
    stop: StopId = None,
) -> Response:
    """What a run printed, first lines and last lines; empty if that was not kept.

    With `stop`: the last lines before that stop.
    """
    if not controls:
        raise Refusal(403, "view_only", FILES_VIEW_ONLY)
    if stop is not None:
        text = named_step(folder, stop).console() or ""
        size = len(text.encode())
        whole = {"text": text, "start": 0, "end": size, "size": size, "line": None}
        return StrictJsonResponse({**whole, "of": "python"})
    with suppress(OSError):  # a part was removed since it was listed
        read = read_console(folder, after=after, tail=tail, most=CONSOLE_BYTES)
        return StrictJsonResponse({**asdict(read), "of": "python"})
    raise not_found()


# -- labels, deletion, lineage ---------------------------------------------------------------------


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
    names = {directory, directory.rpartition("/")[2]}
    if catalog.copies(run_id):  # another directory with this id may have the same name
        names = {directory}
    # The listing may have changed since `folder` was looked up: then the id means another one.
    is_same = folder.as_posix().encode("utf-8", "replace").decode().endswith(f"/{directory}")
    if body.confirm not in names or not is_same:
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
    reader = FactsReader(folder)
    # A damaged run is shown as far as it can be read.
    for event in _until_error(reader.each_event()):
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


def _until_error(events: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    try:
        yield from events
    except MidstepError:
        return


def _read_interventions(folder: Path) -> dict[int, list[str]]:
    """The interventions of each timeline in `lineage.json`, in words."""
    try:
        lineage = strict_json.loads(read_plain(folder / LINEAGE, LARGEST_LINEAGE_BYTES))
        return {
            edge["timeline"]: [_describe(each) for each in edge["interventions"]]
            for edge in lineage["edges"]
            if edge["kind"] == "timeline"
        }
    except FILE_ERRORS:
        return {}


def _describe(intervention: Mapping[str, Any]) -> str:
    """What a user changed, in words: `lr 0.05 → 0.01 at step 11`."""
    step = f"at step {intervention['step']:,}"
    old, new = intervention.get("old"), intervention.get("new")
    if isinstance(old, dict) and isinstance(new, dict):
        changes = [f"{name} {_words(old.get(name))} → {_words(new[name])}" for name in new]
        return f"{', '.join(changes)} {step}"
    fields = {name: value for name, value in intervention.items() if name not in ("step", "kind")}
    words = [
        str(intervention["kind"]),
        *(f"{name} {_words(each)}" for name, each in fields.items()),
    ]
    return f"{' '.join(words).replace('_', ' ')} {step}"


def _words(value: Any) -> str:
    """A value without brackets and quotes; equal ones of several parameter groups once."""
    if isinstance(value, list):
        return ", ".join(dict.fromkeys(map(_words, value)))
    return f"{value:g}" if isinstance(value, float) else str(value)

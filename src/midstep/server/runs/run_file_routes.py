"""The files of a run directory, and what its process printed.

Files are named by ids that come from a listing. Pictures are shown as pictures, everything else is
handed out as bytes to be saved. A command line, a console or a log may hold a secret, so somebody
who may only look is given figures alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO
from urllib.parse import quote

from fastapi import APIRouter, Depends, Query, Request
from fastapi import Path as InPath
from starlette.responses import Response, StreamingResponse

from midstep.core.files.untrusted_files import open_plain
from midstep.server.dependencies import CanControl, catalog_of, declare_run_id
from midstep.server.problems import Refusal, not_found
from midstep.server.responses import StrictJsonResponse
from midstep.server.runs.run_schemas import ConsoleOut, FilesOut

if TYPE_CHECKING:
    from midstep.facts.format.run_files import RunFile

router = APIRouter(prefix="/api/v1/runs", tags=["runs"])
_BY_ID = [Depends(declare_run_id)]
_BYTES: dict[int | str, dict[str, Any]] = {
    200: {"content": {"application/octet-stream": {"schema": {"type": "string"}}}}
}
CONSOLE = "console.log"
CONSOLE_BYTES = 256 << 10
"""The most of a console that one answer holds."""
MOST_FILES = 20_000
CHUNK_BYTES = 256 << 10
_PICTURES = {".png": "image/png", ".svg": "image/svg+xml"}
LOOK_ONLY = "This link can only look at the run and its figures. Ask for one that controls."


def directory_of(request: Request) -> Path:
    """The directory of the run in the address, by listing."""
    found = catalog_of(request).directory(request.path_params["run_id"])
    if found is None:
        raise not_found()
    return found


RunFolder = Annotated[Path, Depends(directory_of)]


@router.get("/{run_id}/files", response_model=FilesOut, dependencies=_BY_ID)
def files(folder: RunFolder) -> Response:
    """Every file of the run directory; links are counted, not listed."""
    from midstep.facts.format.run_files import list_files

    found = list(list_files(folder))
    plain = [file for file in found if file.is_plain]
    return StrictJsonResponse(
        {
            "files": [_file_dict(file) for file in plain[:MOST_FILES]],
            "bytes": sum(file.bytes for file in plain),
            "own_bytes": sum(file.bytes for file in plain if file.is_ours),
            "foreign": sum(not file.is_ours for file in found),
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


@router.get(
    "/{run_id}/files/{file_id}",
    response_class=StreamingResponse,
    responses=_BYTES,
    dependencies=_BY_ID,
)
def file_content(
    folder: RunFolder,
    controls: CanControl,
    file_id: Annotated[str, InPath(max_length=64, description="As the list of files names it.")],
) -> Response:
    """One file: a picture as a picture, anything else as bytes to be saved."""
    from midstep.facts.format.run_files import list_files

    found = next(
        (file for file in list_files(folder) if file.is_plain and file.id == file_id), None
    )
    if found is None:
        raise not_found()
    if not (controls or found.kind == "figure"):
        raise Refusal(403, "view_only", LOOK_ONLY)
    try:
        context = open_plain(folder, *found.path.split("/"))
        file = context.__enter__()
    except OSError:
        raise not_found() from None
    return StreamingResponse(
        _pieces(context, file, found.bytes),
        media_type=_PICTURES.get(Path(found.path).suffix, "application/octet-stream"),
        headers=_headers(found),
    )


def _pieces(context: Any, file: BinaryIO, size: int) -> Iterator[bytes]:
    """The file as it was when it was listed: exactly so many bytes."""
    try:
        left = size
        while left > 0 and (piece := file.read(min(CHUNK_BYTES, left))):
            left -= len(piece)
            yield piece
    finally:
        context.__exit__(None, None, None)


def _headers(file: RunFile) -> dict[str, str]:
    """A picture stands by itself: no script in it runs. Anything else is only ever saved."""
    name = quote(Path(file.path).name.encode("utf-8", "replace"), safe="")
    kind = "inline" if Path(file.path).suffix in _PICTURES else "attachment"
    return {
        "content-disposition": f"{kind}; filename*=UTF-8''{name}",
        "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox",
    }


@router.get("/{run_id}/console", response_model=ConsoleOut, dependencies=_BY_ID)
def console(
    folder: RunFolder,
    controls: CanControl,
    after: Annotated[
        int | None, Query(ge=0, le=2**62, description="Text behind this byte.")
    ] = None,
    tail: Annotated[
        int, Query(ge=0, le=CONSOLE_BYTES, description="So many last bytes, without `after`.")
    ] = 64 << 10,
) -> Response:
    """What the process of a run started from the page printed; empty for other runs."""
    if not controls:
        raise Refusal(403, "view_only", LOOK_ONLY)
    try:
        with open_plain(folder, CONSOLE) as file:
            return StrictJsonResponse(_console_part(file, after, tail))
    except OSError:  # it was started elsewhere: nothing was kept
        return StrictJsonResponse({"text": "", "start": 0, "end": 0, "size": 0})


def _console_part(file: BinaryIO, after: int | None, tail: int) -> dict[str, Any]:
    size = file.seek(0, 2)
    start = max(0, size - tail) if after is None else min(after, size)
    file.seek(start)
    data = file.read(min(CONSOLE_BYTES, size - start))
    if after is None and start > 0:  # a tail begins with a whole character
        whole = (at for at, byte in enumerate(data[:4]) if byte & 0xC0 != 0x80)
        skipped = next(whole, min(4, len(data)))
        start, data = start + skipped, data[skipped:]
    end = len(data) - _cut_character(data)
    return {
        "text": data[:end].decode("utf-8", "replace"),
        "start": start,
        "end": start + end,
        "size": size,
    }


def _cut_character(data: bytes) -> int:
    """Bytes at the end that begin a character of UTF-8 whose rest is still to come."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 != 0x80:  # not a continuation
            length = 1 if byte < 0xC0 else 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return back if length > back else 0
    return 0

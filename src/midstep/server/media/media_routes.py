"""Routes of what a run logged besides numbers.

They read the files of the run, live or ended, and never wait for its process. A view-only link may
read them, as it may read the samples of a batch: a training logs them to be shown.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from fastapi import Path as InPath
from starlette.responses import Response

from midstep.core import strict_json
from midstep.core.errors import FormatError
from midstep.core.media.media_value import MediaKind
from midstep.facts.format.media_files import MediaItem
from midstep.facts.read.media import MediaReader, StoredMedia
from midstep.server.dependencies import declare_run_id
from midstep.server.media.media_schemas import MediaContentOut, MediaGroupDetail, MediaListOut
from midstep.server.problems import Refusal
from midstep.server.responses import StrictJsonResponse
from midstep.server.runs.run_file_routes import RunFolder

router = APIRouter(
    prefix="/api/v1/runs/{run_id}/media", tags=["media"], dependencies=[Depends(declare_run_id)]
)
MOST_READERS = 64
"""Runs whose timelines are remembered."""
MOST_CELLS = 100_000
LARGEST_SIDE = 16_384
NOTHING = "This run has nothing here any more: what is logged later replaces some of it."
GroupId = Annotated[str, InPath(max_length=64, description="The id in the list of media.")]
Number = Annotated[int, InPath(ge=0, le=2**53, description="One of the numbers of the group.")]


class MediaReaders:
    """The readers of the runs that were requested last. Safe to use from several threads."""

    def __init__(self) -> None:
        self._readers: OrderedDict[Path, MediaReader] = OrderedDict()
        self._lock = threading.Lock()

    def reader(self, run_dir: Path) -> MediaReader:
        """The reader of a run directory."""
        with self._lock:
            reader = self._readers.pop(run_dir, None) or MediaReader(run_dir)
            self._readers[run_dir] = reader
            while len(self._readers) > MOST_READERS:
                self._readers.popitem(last=False)
            return reader


def reader_of(request: Request, folder: RunFolder) -> MediaReader:
    """The media of the run in the address."""
    readers: MediaReaders = request.app.state.media
    return readers.reader(folder)


Media = Annotated[MediaReader, Depends(reader_of)]


@router.get("", response_model=MediaListOut)
def media_list(media: Media) -> Response:
    """The names under which pictures, texts, histograms and tables were logged, with the steps."""
    return StrictJsonResponse({"groups": [_group_dict(each) for each in media.groups()]})


@router.get("/{group_id}", response_model=MediaGroupDetail)
def media_group(media: Media, group_id: GroupId) -> Response:
    """What is kept under one name, with all histograms and what is known of the others."""
    group = _find(media, group_id)
    items = [_item_dict(each, group) for each in group.items]
    return StrictJsonResponse({**_group_dict(group), "items": items})


@router.get("/{group_id}/{number}", response_model=MediaContentOut)
def media_content(media: Media, group_id: GroupId, number: Number) -> Response:
    """A text or a table."""
    group = _find(media, group_id)
    data = media.content(group, number) if group.index.kind in ("text", "table") else None
    if data is None:
        raise Refusal(404, "not_found", NOTHING)
    if group.index.kind == "text":
        text = data.decode("utf-8", "replace")
        return StrictJsonResponse({"text": text, "columns": [], "rows": []})
    return StrictJsonResponse({"text": None, **_table(data)})


@router.get(
    "/{group_id}/{number}/picture",
    response_class=Response,
    responses={200: {"content": {"image/png": {"schema": {"type": "string"}}}}},
)
def media_picture(media: Media, group_id: GroupId, number: Number) -> Response:
    """A picture as PNG."""
    group = _find(media, group_id)
    data = media.content(group, number) if group.index.kind == "image" else None
    if data is None or not _is_sound_png(data):
        raise Refusal(404, "not_found", NOTHING)
    return Response(data, media_type="image/png")


def _find(media: MediaReader, group_id: str) -> StoredMedia:
    group = media.group(group_id)
    if group is None:
        raise Refusal(404, "not_found", NOTHING)
    return group


def _group_dict(group: StoredMedia) -> dict[str, Any]:
    return {
        "id": group.id,
        "key": group.index.key,
        "kind": group.index.kind,
        "logged": group.index.logged,
        "abandoned": group.abandoned,
        "bytes": group.bytes,
        "numbers": [item.number for item in group.items],
        "steps": [item.step for item in group.items],
    }


def _item_dict(item: MediaItem, group: StoredMedia) -> dict[str, Any]:
    fields = ("number", "step", "timeline", "at", "bytes")
    known = {_FIELDS[group.index.kind]: _about(item.about, group.index.kind)}
    return {
        **{name: getattr(item, name) for name in fields},
        **dict.fromkeys(_FIELDS.values()),
        **known,
    }


_FIELDS: Mapping[MediaKind, str] = {
    "image": "picture",
    "histogram": "histogram",
    "text": "text",
    "table": "table",
}
_UNSAID: Mapping[MediaKind, Mapping[str, Any]] = {
    "image": {
        "width": 0,
        "height": 0,
        "low": None,
        "high": None,
        "nonfinite": 0,
        "every": 1,
        "tiles": 1,
    },
    "histogram": {"low": 0.0, "high": 0.0, "counts": [], "mean": None, "values": 0, "nonfinite": 0},
    "text": {"characters": 0, "cut": False},
    "table": {"rows": 0, "columns": 0},
}
"""What an index need not say."""


def _about(about: Mapping[str, Any], kind: MediaKind) -> dict[str, Any]:
    known = {name: about.get(name, usual) for name, usual in _UNSAID[kind].items()}
    if kind == "histogram":
        known["counted"] = about.get("counted", known["values"])
    elif kind != "text":
        known["of"] = about.get("of", known["tiles" if kind == "image" else "rows"])
    return known


def _table(data: bytes) -> dict[str, Any]:
    """Columns and rows of a file that anybody may have written."""
    try:
        table = strict_json.loads(data)
        columns, rows = table["columns"], table["rows"]
        width = len(columns)
        is_sound = (
            all(isinstance(name, str) for name in columns)
            and width * len(rows) <= MOST_CELLS
            and all(len(row) == width and all(map(_is_cell, row)) for row in rows)
        )
    except (FormatError, KeyError, TypeError, AttributeError):
        is_sound = False
    if not is_sound:
        raise Refusal(404, "not_found", NOTHING)
    return {"columns": columns, "rows": rows}


def _is_cell(cell: Any) -> bool:
    return cell is None or isinstance(cell, bool | int | float | str)


def _is_sound_png(data: bytes) -> bool:
    """Whether it begins as a PNG whose size a browser can show."""
    if len(data) < 33 or not data.startswith(b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"):
        return False
    width, height = (int.from_bytes(data[start : start + 4], "big") for start in (16, 20))
    return 0 < width <= LARGEST_SIDE and 0 < height <= LARGEST_SIDE

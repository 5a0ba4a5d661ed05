"""Names and index files of what a run logged besides numbers, in `artifacts/media`.

All items of one kind that were logged under one name are a group with a folder of its own. Its
`index.json` lists them; each but a histogram has a file.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from midstep.core import strict_json
from midstep.core.errors import FormatError
from midstep.core.files.untrusted_files import open_plain
from midstep.core.media.media_value import MediaKind

MEDIA_FORMAT = 1
FOLDER = ("artifacts", "media")
INDEX = "index.json"
GROUP_NAME = re.compile(r"[0-9a-f]{20}")
FILE_NAME = re.compile(r"(0|[1-9]\d{0,11})\.(png|txt|json)")
SUFFIXES: Mapping[MediaKind, str | None] = {
    "image": "png",
    "text": "txt",
    "histogram": None,
    "table": "json",
}
LARGEST_INDEX_BYTES = 1 << 20
LARGEST_ITEM_BYTES = 8 << 20
"""midstep writes at most half as much."""
MOST_GROUPS = 100
MOST_ITEMS = 100
"""Items of a group; of more, every second one is removed."""
MOST_BINS = 64
LONGEST_KEY = 200


@dataclass(frozen=True, kw_only=True, slots=True)
class MediaItem:
    """One logged picture, text, histogram or table."""

    number: int
    """Which one of its group it is, counted from 0 over all that were logged."""
    step: int
    """Finished steps when the step ended in which it was logged."""
    timeline: int
    at: float
    """When it was logged, in seconds since 1970."""
    bytes: int
    """Size of its file; 0 for a histogram."""
    about: Mapping[str, Any]
    """Size, range of values and what was left out; all of a histogram."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MediaIndex:
    """All that is kept of one group."""

    key: str
    """The name under which it was logged."""
    kind: MediaKind
    logged: int
    """How many were logged; fewer are kept."""
    stride: int
    """Every n-th item is kept, and the last one; this is n."""
    items: tuple[MediaItem, ...]
    """The kept items, in the order in which they were logged."""

    def as_bytes(self) -> bytes:
        """The content of the index file."""
        items = [
            [each.number, each.step, each.timeline, each.at, each.bytes, each.about]
            for each in self.items
        ]
        head = {"format": MEDIA_FORMAT, "key": self.key, "kind": self.kind}
        fields = {**head, "logged": self.logged, "stride": self.stride, "items": items}
        return f"{strict_json.dumps(fields)}\n".encode()


def group_name(kind: MediaKind, key: str) -> str:
    """The folder of a group; the key itself may be any text.

    >>> len(group_name("image", "samples/epoch 1"))
    20
    """
    data = f"{kind}\0{key}".encode("utf-8", "surrogatepass")
    return hashlib.blake2b(data, digest_size=10).hexdigest()


def file_name(number: int, kind: MediaKind) -> str | None:
    """The file of an item; None for a histogram.

    >>> file_name(12, "image")
    '12.png'
    """
    suffix = SUFFIXES[kind]
    return None if suffix is None else f"{number}.{suffix}"


def media_dir(run_dir: str | Path) -> Path:
    """The folder of all groups of a run."""
    return Path(run_dir).joinpath(*FOLDER)


# -- reading an index, which anybody may have written ----------------------------------------------


def read_index(run_dir: str | Path, group: str) -> MediaIndex:
    """The index of a group by the name of its folder. No link in the run directory is followed.

    Raises:
        OSError: it does not exist, or is not a regular file.
        FormatError: it is damaged, or far too large.
    """
    with open_plain(Path(run_dir), *FOLDER, group, INDEX) as file:
        data = file.read(LARGEST_INDEX_BYTES + 1)
    if len(data) > LARGEST_INDEX_BYTES:
        raise FormatError("the index is too large")
    return parse_index(data)


def parse_index(data: bytes) -> MediaIndex:
    """The index of a group.

    Raises:
        FormatError: it is not one that midstep wrote.
    """
    fields = strict_json.loads(data)
    try:
        if fields["format"] != MEDIA_FORMAT or fields["kind"] not in get_args(MediaKind):
            raise FormatError("this version of midstep cannot read the index")
        return MediaIndex(
            key=_text(fields["key"]),
            kind=fields["kind"],
            logged=_count(fields["logged"]),
            stride=_count(fields["stride"]),
            items=tuple(_item(each) for each in fields["items"][: 2 * MOST_ITEMS]),
        )
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        raise FormatError(f"the index is damaged: {error}") from None


def _item(values: Any) -> MediaItem:
    number, step, timeline, at, size, about = values
    known = {name: check(about[name]) for name, check in _ABOUT.items() if name in about}
    return MediaItem(
        number=_count(number),
        step=_count(step),
        timeline=_count(timeline),
        at=_number(at),
        bytes=_count(size),
        about=known,
    )


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 2**53:
        raise ValueError("a count is expected")
    return value


def _number(value: Any) -> float:
    if type(value) not in (int, float) or not math.isfinite(value):
        raise ValueError("a number is expected")
    return float(value)


def _mean(value: Any) -> float | None:
    return None if value is None else _number(value)


def _text(value: Any) -> str:
    if type(value) is not str or len(value) > LONGEST_KEY:
        raise ValueError("a short text is expected")
    return value


def _counts(value: Any) -> list[int]:
    if type(value) is not list or not 0 < len(value) <= MOST_BINS:
        raise ValueError("counts are expected")
    return [_count(each) for each in value]


_COUNTS = (
    *("width", "height", "tiles", "of", "every", "nonfinite", "characters", "rows", "columns"),
    *("values", "counted"),
)
_ABOUT: Mapping[str, Callable[[Any], Any]] = {
    **dict.fromkeys(_COUNTS, _count),
    "low": _number,
    "high": _number,
    "mean": _mean,
    "cut": bool,
    "counts": _counts,
}
"""What may be known of an item, and how it is checked."""

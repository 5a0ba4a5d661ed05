"""Encodes media for the disk. Runs on the thread that writes them, never on the training thread."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from midstep.core import strict_json
from midstep.core.files.masked_text import MASK, mask_page_tokens, names_a_secret
from midstep.core.media.array_copies import as_numpy
from midstep.core.media.given_values import MOST_CELL_CHARACTERS, MOST_CHARACTERS
from midstep.core.media.media_value import EncodedPicture, MediaValue, Numbers, Pixels, Rows
from midstep.core.media.pictures import draw, encode

MOST_FILE_BYTES = 4 << 20
"""Most bytes of one picture or table; a larger one is reduced."""
BINS = 64


@dataclass(frozen=True, kw_only=True)
class EncodedMedia:
    """One logged picture, text, histogram or table as it is stored."""

    suffix: str | None
    """Suffix of its file: png, txt or json. A histogram is in the index and has no file."""
    data: bytes = b""
    about: dict[str, Any] = field(default_factory=dict)
    """Its size, its range, and what was left out."""


def encode_media(value: MediaValue, name: str) -> EncodedMedia:
    """A logged value as it is stored; waits for the device that it was copied on.

    Args:
        value: what was logged.
        name: under which name; the text of one that names a secret is masked.

    >>> encode_media(MediaValue("text", "done", 4), "note").data
    b'done'
    """
    value.wait()
    content = value.content
    if isinstance(content, EncodedPicture):
        return _encoded_picture(content.png)
    if isinstance(content, Pixels):
        return _picture(content)
    if isinstance(content, Numbers):
        return EncodedMedia(suffix=None, about=describe_histogram(content))
    if isinstance(content, Rows):
        return _table(content)
    return _text(MASK if names_a_secret(name) else content)


def _encoded_picture(png: bytes) -> EncodedMedia:
    if len(png) > MOST_FILE_BYTES:
        size = f"{len(png) / 2**20:.1f} MiB"
        raise ValueError(f"a figure of {size} is too large; draw it with fewer dots per inch")
    width, height = (int.from_bytes(png[start : start + 4], "big") for start in (16, 20))
    return EncodedMedia(suffix="png", data=png, about={"width": width, "height": height})


def _picture(given: Pixels) -> EncodedMedia:
    pixels, about = draw(as_numpy(given.array), given.axes)
    png, shown, every = encode(pixels, MOST_FILE_BYTES)
    about |= {"width": shown.shape[1], "height": shown.shape[0]}
    if every * given.every > 1:
        about["every"] = every * given.every
    if given.of > about.get("tiles", 1):
        about["of"] = given.of
    return EncodedMedia(suffix="png", data=png, about=about)


def describe_histogram(given: Numbers) -> dict[str, Any]:
    """How many values lie in each of 64 equal bins from the lowest to the highest finite one.

    >>> found = describe_histogram(Numbers([0.0, 1.0, 1.0, float("nan")], 4))
    >>> found["counts"][0], found["counts"][-1], found["low"], found["high"], found["nonfinite"]
    (1, 2, 0.0, 1.0, 1)
    """
    import numpy as np

    values = np.asarray(as_numpy(given.values), np.float64).reshape(-1)
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
    # The difference of two large numbers may be infinite, and bins of no width are refused.
    is_wide = high > low and math.isfinite(high - low)
    edges = (low, high) if is_wide else (low - 0.5, low + 0.5)
    counts = np.histogram(finite, bins=BINS, range=edges)[0]
    described = {
        "counts": counts.tolist(),
        "low": edges[0],
        "high": edges[1],
        "mean": float(finite.mean()) if finite.size else None,
        "values": given.of,
        "nonfinite": int(values.size - finite.size),
    }
    return described if values.size == given.of else {**described, "counted": int(values.size)}


def _text(text: str) -> EncodedMedia:
    shown = mask_page_tokens(text[:MOST_CHARACTERS])
    about = {"characters": len(text), **({"cut": True} if len(text) > MOST_CHARACTERS else {})}
    return EncodedMedia(suffix="txt", data=shown.encode("utf-8", "replace"), about=about)


def _table(given: Rows) -> EncodedMedia:
    secret = [names_a_secret(name) for name in given.columns]
    rows = [
        [MASK if masked and isinstance(cell, str) else _cell(cell) for cell, masked in pairs]
        for pairs in (zip(row, secret, strict=True) for row in given.rows)
    ]
    columns = [name[:MOST_CELL_CHARACTERS] for name in given.columns]
    data = _table_json(columns, rows)
    while len(data) > MOST_FILE_BYTES and rows:
        rows = rows[: len(rows) // 2]
        data = _table_json(columns, rows)
    about = {"rows": len(rows), "columns": len(columns)}
    if given.of > len(rows):
        about["of"] = given.of
    return EncodedMedia(suffix="json", data=data, about=about)


def _table_json(columns: list[str], rows: list[list[Any]]) -> bytes:
    return strict_json.dumps({"columns": columns, "rows": rows}).encode()


def _cell(cell: Any) -> Any:
    """A cell as strict JSON holds it: a number, a text, true, false or null."""
    if isinstance(cell, str):
        cut = cell[:MOST_CELL_CHARACTERS] + ("…" if len(cell) > MOST_CELL_CHARACTERS else "")
        return mask_page_tokens(cut)
    if cell is None or isinstance(cell, bool | int | float):
        return cell
    return as_numpy(cell).reshape(-1)[0].item()

"""The registry of the kinds of samples: which fields of an answer each kind fills in.

A new kind is one entry here, one in `control.samples.layout`, and one in the page's
`samples/kinds.ts`.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from midstep.control.capture.captured_data import ShownSamples
from midstep.control.samples.layout import SampleKind
from midstep.server.array_json import as_array, numbers
from midstep.server.step_views.batch_picture import Grid, make_grid, small_png
from midstep.server.step_views.samples.lines import (
    describe_lines,
    kind_of_lines,
    sample_rate,
)
from midstep.server.step_views.samples.texts import list_length, shortened, texts_of, token_rows
from midstep.server.step_views.samples.tiles import broken_pixels, describe_mask, mask_of, tiles_of

Fields = dict[str, Any]
ROW_NUMBERS = 4096
"""Numbers of all shown rows together: so many samples have fewer values each."""
EMPTY: Mapping[str, Any] = {
    "png": None,
    "grid": None,
    "mask": None,
    "frames": None,
    "rows": None,
    "texts": None,
    "lines": None,
    "sample_rate": None,
    "note": None,
}
"""The fields of `BatchOut` that only some kinds have."""


def grid_of(shown: ShownSamples) -> tuple[Grid, list[int] | None]:
    """The tiles of some samples, and how many values of each are not finite."""
    broken, counts = broken_pixels(shown)
    layout = shown.layout
    grid = make_grid(
        tiles_of(shown),
        stride=layout.stride,
        full_width=layout.width,
        full_height=layout.height,
        mask=broken,
    )
    return grid, counts


def _pictures(shown: ShownSamples, *, inline: bool) -> Fields:
    grid, counts = grid_of(shown)
    layout, png = shown.layout, None
    if inline:
        data, grid = small_png(grid)
        png = base64.b64encode(data).decode()
    frames = {"count": layout.frames, "word": layout.frame_word} if layout.frames else None
    return {"png": png, "grid": grid.fields, "frames": frames, "broken": counts}


def _masked_pictures(shown: ShownSamples, *, inline: bool) -> Fields:
    layers = {layer: mask_of(shown, layer) for layer in ("mask", "prediction")}
    known = {layer: mask for layer, mask in layers.items() if mask is not None}
    fields = _pictures(shown, inline=inline)
    if "mask" not in known:  # floats that are an image to reconstruct
        return {**fields, "kind": "images"}
    classes = describe_mask(list(known.values()), shown.view)
    return {
        **fields,
        "kind": "image_mask",
        "mask": {"layers": list(known), "classes": classes},
    }


def _texts(shown: ShownSamples, *, inline: bool) -> Fields:
    del inline
    texts, note = texts_of(shown)
    most = list_length(shown.stop - shown.first)
    cut = None if texts is None else [shortened(text, most) for text in texts]
    return {"texts": cut, "note": note, **_token_rows(shown)}


def _token_rows(shown: ShownSamples) -> Fields:
    if shown.values is None:
        return {}
    most = max(1, ROW_NUMBERS // (shown.stop - shown.first))
    rows = as_array(shown.values)[:, :most]
    if shown.slices.attention is None and (shown.view is None or shown.view.pad_id is None):
        return {"rows": numbers(rows)}
    ids = token_rows(shown.values, shown.slices.attention, shown.view)
    return {"rows": [row[:most] for row in ids]}


def _rows(shown: ShownSamples, *, inline: bool) -> Fields:
    del inline
    most = max(1, ROW_NUMBERS // (shown.stop - shown.first))
    return {"rows": numbers(as_array(shown.values)[:, :most])}


def _lines(shown: ShownSamples, *, inline: bool) -> Fields:
    del inline
    kind = kind_of_lines(shown)
    array = as_array(shown.values)
    broken = (~np.isfinite(array)).sum(axis=(1, 2)).tolist() if array.dtype.kind == "f" else []
    return {
        "kind": kind,
        "lines": describe_lines(array, length=shown.layout.length),
        "sample_rate": sample_rate(shown) if kind == "audio" else None,
        "broken": [int(each) for each in broken],
    }


def _nothing(shown: ShownSamples, *, inline: bool) -> Fields:
    del shown, inline
    return {}


KINDS: Mapping[SampleKind, Callable[..., Fields]] = {
    "images": _masked_pictures,
    "image_mask": _masked_pictures,
    "frames": _pictures,
    "text": _texts,
    "tokens": _texts,
    "table": _nothing,  # its columns are in every answer
    "vectors": _rows,
    "audio": _lines,
    "series": _lines,
    "nested": _nothing,
    "other": _nothing,
}


def describe_kind(shown: ShownSamples, *, inline: bool) -> Fields:
    """The fields that depend on the kind, and `broken`: values of each sample that are not finite.

    Args:
        shown: the samples.
        inline: whether to put a small picture into the JSON.
    """
    kind = shown.layout.kind
    has_values = shown.values is not None or kind in ("text", "table", "nested", "other")
    if shown.first == shown.stop or not has_values:
        return {**EMPTY, "kind": kind}
    return {**EMPTY, "kind": kind, **KINDS[kind](shown, inline=inline)}

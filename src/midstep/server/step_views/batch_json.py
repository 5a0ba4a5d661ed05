"""A captured batch as JSON: what its samples are, their ids, targets, predictions and losses."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from midstep.control.capture.captured_data import CapturedBatch, ShownSamples
from midstep.server.array_json import all_finite, as_array, numbers, shape_of
from midstep.server.step_views.batch_picture import Grid, make_grid, value_range
from midstep.server.step_views.samples.columns import broken_cells, describe_columns
from midstep.server.step_views.samples.kinds import describe_kind
from midstep.server.step_views.samples.labels import ids_of, labels_of, listed, predictions_of
from midstep.server.step_views.samples.lines import WHOLE_POINTS, describe_lines
from midstep.server.step_views.samples.texts import (
    WHOLE_CHARACTERS,
    WHOLE_TOKENS,
    pieces_of,
    shortened,
    texts_of,
    token_rows,
)
from midstep.server.step_views.samples.tiles import denormalized

MAX_SHOWN = 512
"""Samples of one answer."""
SAMPLE_NUMBERS = 8192
"""Values of one sample in JSON; larger ones are read as a picture or as safetensors."""
SAMPLE_LABEL = 10_000
"""Characters of the target of one sample."""
FRAME_PIXELS = 4_000_000
"""Pixels of all frames of one sample together."""


def describe_samples(shown: ShownSamples, *, inline: bool = False) -> dict[str, Any]:
    """The fields of `BatchOut`.

    Args:
        shown: the samples.
        inline: whether to put a small picture into the JSON.
    """
    layout, count = shown.layout, shown.stop - shown.first
    of_kind = describe_kind(shown, inline=inline)
    columns, left_out = describe_columns(shown)
    broken = of_kind.pop("broken", None) or broken_cells(shown.slices, count)
    notes = (shown.description.note, of_kind.pop("note"), left_out)
    return {
        "step": shown.step,
        "loss": shown.loss,
        "shape": list(layout.shape),
        "dtype": layout.dtype,
        "count": layout.count,
        "first": shown.first,
        "shown": count,
        **of_kind,
        "columns": columns,
        "note": "; ".join(note for note in notes if note) or None,
        "labels": labels_of(shown),
        "losses": listed(shown.losses),
        "loss_shares": listed(shown.loss_shares),
        "loss_note": shown.loss_note,
        "loss_fact": shown.loss_fact,
        "predictions": predictions_of(shown),
        "probabilities": listed(shown.probabilities),
        "sample_ids": ids_of(shown.sample_ids),
        "etag": shown.etag,
        "nonfinite": sum(broken),
        "nonfinite_in": broken if any(broken) else None,
    }


def describe_sample(batch: CapturedBatch, index: int) -> dict[str, Any]:
    """The fields of `SampleOut`: one sample at full resolution."""
    shown = whole_sample(batch, index)
    layout, sample = shown.layout, sample_tensor(batch, index)
    of_kind = describe_kind(shown, inline=False)
    columns, _ = describe_columns(shown, whole=True)
    label, loss, share, prediction, probability, sample_id = (
        None if values is None else values[0]
        for values in (
            labels_of(shown, most=SAMPLE_LABEL),
            listed(shown.losses),
            listed(shown.loss_shares),
            predictions_of(shown, most=SAMPLE_LABEL),
            listed(shown.probabilities),
            ids_of(shown.sample_ids),
        )
    )
    sides: tuple[int | None, ...] = (None, None, None)
    if layout.is_picture and sample is not None:  # of a list, each image has its own size
        channels, height, width = shape_of(sample)[-3:]
        sides = (width, height, channels)
    return {
        "step": batch.step,
        "index": index,
        "count": layout.count,
        "etag": batch.etag,
        "kind": of_kind["kind"],
        "shape": [] if sample is None else shape_of(sample),
        "dtype": layout.dtype,
        **dict(zip(("width", "height", "channels"), sides, strict=True)),
        **_values(shown, sample),
        **_text(shown),
        "mask": of_kind["mask"],
        "frames": of_kind["frames"],
        "grid": frames_grid(shown, sample).fields if layout.kind == "frames" else None,
        "lines": _lines(shown),
        "sample_rate": of_kind["sample_rate"],
        "columns": columns,
        "note": shown.description.note or of_kind["note"],
        "label": None if label == "" else label,
        "prediction": prediction,
        "probability": probability,
        "loss": loss,
        "loss_share": share,
        "sample_id": sample_id,
    }


def whole_sample(batch: CapturedBatch, index: int) -> ShownSamples:
    """One sample with all values of its parts.

    Raises:
        Refusal: 404 if the batch has no such sample.
    """
    check_index(batch, index)
    shown = batch.samples(index, 1)
    slices = batch.parts.cut(index, index + 1, stride=1, full=True)
    return replace(shown, slices=slices, unreduced=None)


def _values(shown: ShownSamples, sample: Any) -> dict[str, Any]:
    """The fields `low`, `high`, `nonfinite` and `values`."""
    if sample is None:
        broken = broken_cells(shown.slices, 1)
        return {"low": 0.0, "high": 0.0, "nonfinite": broken[0], "values": None}
    array = as_array(sample)
    is_broken = array.dtype.kind == "f" and not all_finite(array)
    mask = ~np.isfinite(array) if is_broken else None
    drawn = denormalized(array, shown.view) if shown.layout.is_picture else array
    low, high = value_range(drawn, mask)
    return {
        "low": low,
        "high": high,
        "nonfinite": 0 if mask is None else int(mask.sum()),
        "values": numbers(array.reshape(-1)) if array.size <= SAMPLE_NUMBERS else None,
    }


def _text(shown: ShownSamples) -> dict[str, Any]:
    """The fields `text`, `tokens` and `pieces`."""
    texts, _ = texts_of(shown)
    text = None if texts is None else shortened(texts[0], WHOLE_CHARACTERS)
    if shown.layout.kind != "tokens" or shown.values is None:
        return {"text": text, "tokens": None, "pieces": None}
    ids = token_rows(shown.values, shown.slices.attention, shown.view)[0][:WHOLE_TOKENS]
    has_text = shown.view is not None and shown.view.text is not None
    pieces = pieces_of(shown.view, ids) if has_text and shown.view is not None else None
    return {"text": text, "tokens": ids, "pieces": pieces}


def _lines(shown: ShownSamples) -> dict[str, Any] | None:
    if not shown.layout.is_line or shown.values is None:
        return None
    return describe_lines(shown.values, points=WHOLE_POINTS, length=shown.layout.length)


def frames_grid(shown: ShownSamples, sample: Any) -> Grid:
    """The picture of all frames [T, C, H, W] of a sample; coarser where they are many."""
    layout = shown.layout
    pixels = layout.frames * layout.height * layout.width
    step = max(1, math.ceil(math.sqrt(pixels / FRAME_PIXELS)))
    frames = denormalized(as_array(sample), shown.view)[:, :, ::step, ::step]
    return make_grid(frames, stride=step, full_width=layout.width, full_height=layout.height)


def check_index(batch: CapturedBatch, index: int) -> None:
    """Refuse a position after the last sample.

    Raises:
        Refusal: 404 if the batch has no such sample.
    """
    count = batch.layout.count
    if index >= count:
        text = f"The batch has {count:,} samples; there is no sample {index:,}."
        raise _refusal(404, "no_sample", text)


def sample_tensor(batch: CapturedBatch, index: int) -> Any:
    """One sample at full resolution: an image [C, h, w], else as the batch has it; None if it is
    no tensor.

    Raises:
        Refusal: 404 if the batch has no such sample, 422 if it cannot be read.
    """
    check_index(batch, index)
    parts = batch.parts
    if parts.tensor is None:
        return None
    try:
        sample = parts.layout.whole_sample(parts.tensor, index)
        as_array(sample)
    except (TypeError, RuntimeError) as error:
        raise _refusal(422, "no_tensor", f"This sample cannot be read: {error}.") from error
    return sample


def _refusal(status: int, error: str, message: str) -> Exception:
    # Imported late: a training that keeps its batches encodes them without FastAPI.
    from midstep.server.problems import Refusal

    return Refusal(status, error, message)

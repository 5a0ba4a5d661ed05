"""A captured batch as JSON: geometry of its picture, ids, labels and losses of its samples."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import numpy as np

from midstep.control.capture.captured_data import CapturedBatch, ShownSamples
from midstep.server.array_json import all_finite, as_array, is_tensor, numbers, shape_of
from midstep.server.step_views.batch_picture import make_grid, small_png, value_range

MAX_SHOWN = 512
"""Samples of one answer."""
ROW_NUMBERS = 4096
"""Numbers of all shown rows together: so many samples have fewer values each."""
LABEL_LENGTH = 48
LABEL_NUMBERS = 16
"""First numbers of a prediction that has several."""
SAMPLE_NUMBERS = 8192
"""Values of one sample in JSON; larger ones are read as a picture or as safetensors."""


def describe_samples(shown: ShownSamples, *, inline: bool = False) -> dict[str, Any]:
    """The fields of `BatchOut`.

    Args:
        shown: the samples.
        inline: whether to put a small picture into the JSON.
    """
    layout, count = shown.layout, shown.stop - shown.first
    return {
        "step": shown.step,
        "loss": shown.loss,
        "kind": layout.kind,
        "shape": list(layout.shape),
        "dtype": layout.dtype,
        "count": layout.count,
        "first": shown.first,
        "shown": count,
        **_picture(shown, inline=inline),
        "labels": _listed(shown.labels),
        "losses": _listed(shown.losses),
        "loss_shares": _listed(shown.loss_shares),
        "loss_note": shown.loss_note,
        "loss_fact": shown.loss_fact,
        "predictions": _predictions(shown.predictions),
        "probabilities": _listed(shown.probabilities),
        "sample_ids": _ids(shown.sample_ids),
        "etag": shown.etag,
    }


def _picture(shown: ShownSamples, *, inline: bool) -> dict[str, Any]:
    """The fields `png`, `grid`, `rows` and `nonfinite`."""
    empty: dict[str, Any] = {"png": None, "grid": None, "rows": None, "nonfinite": 0}
    count, layout = shown.stop - shown.first, shown.layout
    if shown.values is None or count == 0:
        return empty
    if layout.kind != "images":
        rows = as_array(shown.values)[:, : max(1, ROW_NUMBERS // count)]
        broken = 0 if rows.dtype.kind != "f" else int(rows.size - np.isfinite(rows).sum())
        return {**empty, "rows": numbers(rows), "nonfinite": broken}
    values = as_array(shown.values)
    geometry = {
        "stride": layout.stride,
        "full_width": layout.width,
        "full_height": layout.height,
    }
    grid = make_grid(values, **geometry)
    nonfinite = grid.nonfinite
    png = None
    if inline:
        data, grid = small_png(values, grid, **geometry)
        png = base64.b64encode(data).decode()
    return {**empty, "png": png, "grid": grid.fields, "nonfinite": nonfinite}


def describe_sample(batch: CapturedBatch, index: int) -> dict[str, Any]:
    """The fields of `SampleOut`: one sample at full resolution."""
    sample, shown = find_sample(batch, index), batch.samples(index, 1)
    layout, array = shown.layout, as_array(sample)
    is_image = layout.kind == "images"
    is_broken = array.dtype.kind == "f" and not all_finite(array)
    mask = ~np.isfinite(array) if is_broken else None
    low, high = value_range(array, mask)
    label, loss, share, prediction, probability, sample_id = (
        None if values is None else values[0]
        for values in (
            _listed(shown.labels),
            _listed(shown.losses),
            _listed(shown.loss_shares),
            _predictions(shown.predictions),
            _listed(shown.probabilities),
            _ids(shown.sample_ids),
        )
    )
    return {
        "step": batch.step,
        "index": index,
        "count": layout.count,
        "etag": batch.etag,
        "kind": layout.kind,
        "shape": shape_of(sample),
        "dtype": layout.dtype,
        "width": layout.width if is_image else None,
        "height": layout.height if is_image else None,
        "channels": layout.channels if is_image else None,
        "low": low,
        "high": high,
        "nonfinite": 0 if mask is None else int(mask.sum()),
        "label": label,
        "prediction": prediction,
        "probability": probability,
        "loss": loss,
        "loss_share": share,
        "sample_id": sample_id,
        "values": numbers(array.reshape(-1)) if array.size <= SAMPLE_NUMBERS else None,
    }


def find_sample(batch: CapturedBatch, index: int) -> Any:
    """One sample at full resolution: an image [C, h, w], else as the batch has it.

    Raises:
        Refusal: 404 if the batch has no such sample, 422 if its samples cannot be read.
    """
    layout = batch.layout
    if index >= layout.count:
        raise _refusal(
            404,
            "no_sample",
            f"The batch has {layout.count:,} samples; there is no sample {index:,}.",
        )
    tensor = batch.main_tensor
    if layout.kind == "images":
        return layout.view(tensor, index, index + 1, stride=1)[0]
    try:
        sample = tensor[index]
        as_array(sample)
    except (TypeError, RuntimeError) as error:
        raise _refusal(422, "no_tensor", f"This sample cannot be read: {error}.") from error
    return sample


def _refusal(status: int, error: str, message: str) -> Exception:
    # Imported late: a training that keeps its batches encodes them without FastAPI.
    from midstep.server.problems import Refusal

    return Refusal(status, error, message)


def _listed(values: Any) -> list[Any] | None:
    """One number or text for each shown sample; None if there are none."""
    if is_tensor(values):
        try:
            array = as_array(values)
        except (TypeError, RuntimeError):
            return None
        return numbers(array.reshape(-1)) if array.dtype.kind in "biuf" else None
    return [_label(value) for value in values] if isinstance(values, Sequence) else None


def _predictions(values: Any) -> list[Any] | None:
    """One number for each sample, or a text with its first numbers; None for maps."""
    if not is_tensor(values) or len(values.shape) <= 1:
        return _listed(values)
    if len(values.shape) != 2:
        return None
    rows = numbers(as_array(values[:, :LABEL_NUMBERS]))
    return [" ".join(map(_short, row)) for row in rows]


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _label(value: Any) -> Any:
    if hasattr(value, "item") and not isinstance(value, str):
        return value.item() if getattr(value, "ndim", 0) == 0 else str(shape_of(value))
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    return str(value)[:LABEL_LENGTH]


def _ids(values: Any) -> list[int] | None:
    ids = _listed(values)
    is_valid = ids is not None and all(isinstance(value, int) for value in ids)
    return ids if is_valid else None

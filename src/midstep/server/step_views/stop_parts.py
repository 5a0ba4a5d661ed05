"""What is kept of a stop, as parts of its file: the answers that the routes would give.

The routes answer for a stored run with these parts, so every kind of sample that the page shows of
a live run it shows of a stored one, too. `session.evidence` loads this module by its name when the
first stop is written: it lies below `server`. So nothing here imports FastAPI.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from midstep.control import CapturedBatch, StepData
from midstep.control.capture.captured_data import CapturedSamples
from midstep.core import strict_json
from midstep.facts.format.stop_files import BATCH, data_part, picture_part, sample_part
from midstep.server.array_json import as_array
from midstep.server.step_views.batch_json import describe_sample, describe_samples, sample_tensor
from midstep.server.step_views.sample_pictures import LAYERS, picture_of, picture_of_sample
from midstep.server.step_views.step_data_json import encode_step_data, hint_fields

MOST_SAMPLES = 128
LEAST_SAMPLES = 8
MOST_PICTURE_BYTES = 1 << 20
"""A larger picture shows fewer samples."""
MOST_SAMPLE_BYTES = 768 << 10
"""Samples at full resolution, together."""
MOST_ENTRY_BYTES = 512 << 10
"""A larger entry of the step data is summarised."""
RESULTS = {
    "loss": "losses",
    "loss_share": "loss_shares",
    "prediction": "predictions",
    "probability": "probabilities",
}
"""Fields of one sample, and the columns of the batch that have them."""
Part = tuple[str, bytes]


def batch_parts(captured: CapturedBatch | CapturedSamples, etag: str) -> Iterator[Part]:
    """The shown samples and their pictures.

    Args:
        captured: of a step; it is read here, and may not change meanwhile.
        etag: names what is kept.
    """
    count = min(MOST_SAMPLES, _available(captured))
    while True:
        shown = captured.samples(0, count)
        pictures = {layer: picture_of(shown, layer) for layer in LAYERS}
        size = sum(len(each) for each in pictures.values() if each is not None)
        if size <= MOST_PICTURE_BYTES or count <= LEAST_SAMPLES:
            break
        count //= 2
    # Only those samples can be shown that are kept; the shape has all of them.
    yield BATCH, _json({**describe_samples(shown), "count": count, "etag": etag})
    for layer, picture in pictures.items():
        if picture is not None:
            yield picture_part(layer), picture


def _available(captured: CapturedBatch | CapturedSamples) -> int:
    """Samples from the first one on that were captured."""
    if isinstance(captured, CapturedBatch):
        return captured.layout.count
    return next((part.stop for part in captured.parts if part.first == 0), 0)


def sample_parts(
    whole: CapturedBatch, captured: CapturedBatch | CapturedSamples, etag: str
) -> Iterator[Part]:
    """Samples at full resolution, those with the largest loss first, as many as there is room.

    Args:
        whole: the batch.
        captured: of the same step; knows losses and predictions.
        etag: names what is kept.
    """
    whole, left = whole.arrived(), MOST_SAMPLE_BYTES
    count = min(MOST_SAMPLES, whole.layout.count, _available(captured))
    known = describe_samples(captured.samples(0, count))
    for index in _by_loss(known["losses"], count):
        parts = list(_parts_of_sample(whole, index, known, etag))
        left -= sum(len(data) for _, data in parts)
        if left < 0:
            return
        yield from parts


def _parts_of_sample(
    whole: CapturedBatch, index: int, known: dict[str, Any], etag: str
) -> Iterator[Part]:
    answer = {**describe_sample(whole, index), "etag": etag}
    for field, column in RESULTS.items():
        if known[column] is not None:
            answer[field] = known[column][index]
    layout = whole.layout
    if layout.is_picture:
        answer["values"] = None  # the pixels are in the picture
    yield sample_part(index, "json"), _json(answer)
    for layer in LAYERS if layout.is_picture else ():
        picture = picture_of_sample(whole, index, layer)
        if picture is not None:
            yield sample_part(index, "png", layer), picture
    if layout.is_line:  # to be heard, and drawn in full
        from safetensors.numpy import save

        numbers = {"sample": as_array(sample_tensor(whole, index)).copy()}
        yield sample_part(index, "safetensors"), save(numbers, {"step": str(whole.step)})


def _by_loss(losses: list[Any] | None, count: int) -> list[int]:
    if losses is None or len(losses) < count:
        return list(range(count))
    # Values that are not finite come as text, and are what a reader looks for.
    keys = [each if isinstance(each, int | float) else math.inf for each in losses]
    return sorted(range(count), key=lambda index: -keys[index])


def step_data_parts(data: StepData, keys: list[str], first: int = 0) -> Iterator[Part]:
    """The entries of these keys, each in its part; `first` is the number of the first part."""
    arrived = data.arrived()
    for position, key in enumerate(keys, first):
        yield data_part(position), _entry(arrived, key)


def _entry(data: StepData, key: str) -> bytes:
    value, panel = data.values[key], data.panels.get(key)
    for full in (True, False):
        encoded = encode_step_data(value, full=full)
        answer = {"key": key, "step": data.step_of(key), **encoded}
        text = _json(answer | hint_fields(panel, value, encoded))
        if len(text) <= MOST_ENTRY_BYTES:
            break
    return text


def _json(value: Any) -> bytes:
    return strict_json.dumps(value).encode()

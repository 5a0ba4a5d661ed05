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
from midstep.server.step_views.batch_json import describe_sample, describe_samples, find_sample
from midstep.server.step_views.batch_picture import make_grid, sample_png
from midstep.server.step_views.step_data_json import encode_step_data, hint_fields

MOST_SAMPLES = 128
LEAST_SAMPLES = 8
MOST_PICTURE_BYTES = 1 << 20
"""A larger picture shows fewer samples."""
MOST_SAMPLE_BYTES = 768 << 10
"""Samples at full resolution, together."""
MOST_ENTRY_BYTES = 512 << 10
"""A larger entry of the step data is summarised."""
BATCH, PICTURE = "batch.json", "batch.png"
Part = tuple[str, bytes]


def sample_part(index: int, suffix: str) -> str:
    """Name of the part that has one sample at full resolution.

    >>> sample_part(3, "json")
    'samples/3.json'
    """
    return f"samples/{index}.{suffix}"


def data_part(position: int) -> str:
    """Name of the part that has one entry of the step data; the manifest lists their keys."""
    return f"step_data/{position}.json"


def batch_parts(captured: CapturedBatch | CapturedSamples, etag: str) -> Iterator[Part]:
    """The shown samples and their picture.

    Args:
        captured: of a step; it is read here, and may not change meanwhile.
        etag: names what is kept.
    """
    count = min(MOST_SAMPLES, _available(captured))
    while True:
        answer, picture = _shown(captured, count)
        if picture is None or len(picture) <= MOST_PICTURE_BYTES or count <= LEAST_SAMPLES:
            break
        count //= 2
    # Only those samples can be shown that are kept; the shape has all of them.
    answer |= {"count": count, "etag": etag, "png": None}
    yield BATCH, _json(answer)
    if picture is not None:
        yield PICTURE, picture


def _available(captured: CapturedBatch | CapturedSamples) -> int:
    """Samples from the first one on that were captured."""
    if isinstance(captured, CapturedBatch):
        return captured.layout.count
    return next((part.stop for part in captured.parts if part.first == 0), 0)


def _shown(
    captured: CapturedBatch | CapturedSamples, count: int
) -> tuple[dict[str, Any], bytes | None]:
    shown = captured.samples(0, count)
    layout, answer = shown.layout, describe_samples(shown)
    if layout.kind != "images" or shown.values is None or shown.first == shown.stop:
        return answer, None
    geometry = {"full_width": layout.width, "full_height": layout.height}
    return answer, make_grid(shown.values, stride=layout.stride, **geometry).png()


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
    is_image = whole.layout.kind == "images"
    for index in _by_loss(known["losses"], count):
        answer = {**describe_sample(whole, index), **_results(known, index), "etag": etag}
        if is_image:
            answer["values"] = None  # the pixels are in the picture
        described = _json(answer)
        picture = sample_png(find_sample(whole, index)) if is_image else b""
        left -= len(described) + len(picture)
        if left < 0:
            return
        yield sample_part(index, "json"), described
        if is_image:
            yield sample_part(index, "png"), picture


def _results(known: dict[str, Any], index: int) -> dict[str, Any]:
    """What the step computed for one sample, as far as it is known."""
    columns = {
        "loss": "losses",
        "loss_share": "loss_shares",
        "prediction": "predictions",
        "probability": "probabilities",
    }
    return {
        field: known[column][index]
        for field, column in columns.items()
        if known.get(column) is not None
    }


def _by_loss(losses: list[Any] | None, count: int) -> list[int]:
    if losses is None or len(losses) < count:
        return list(range(count))
    # What is not finite comes as text, and is what one looks for.
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

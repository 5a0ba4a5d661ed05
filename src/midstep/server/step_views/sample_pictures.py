"""The pictures of samples, as the routes send them and as they are kept with a stop."""

from __future__ import annotations

from midstep.control.capture.captured_data import CapturedBatch, ShownSamples
from midstep.server.array_json import as_array
from midstep.server.step_views.batch_json import frames_grid, sample_tensor, whole_sample
from midstep.server.step_views.batch_picture import COLUMNS, mask_png, sample_png
from midstep.server.step_views.samples.kinds import grid_of
from midstep.server.step_views.samples.tiles import denormalized, mask_of

LAYERS = ("image", "mask", "prediction")
"""The images, or the classes of their pixels as bytes."""


def picture_of(shown: ShownSamples, layer: str) -> bytes | None:
    """The picture of some samples; None if they have none of this layer."""
    if not shown.layout.is_picture or shown.values is None or shown.first == shown.stop:
        return None
    if layer == "image":
        return grid_of(shown)[0].png()
    classes = mask_of(shown, layer)
    return None if classes is None else mask_png(classes, min(COLUMNS, len(classes)))


def picture_of_sample(captured: CapturedBatch, index: int, layer: str) -> bytes | None:
    """The picture of one sample at full resolution; of an image sequence that of all images."""
    shown = whole_sample(captured, index)
    if not shown.layout.is_picture:
        return None
    if layer != "image":
        return picture_of(shown, layer)
    sample = sample_tensor(captured, index)
    if shown.layout.kind == "frames":
        return frames_grid(shown, sample).png()
    return sample_png(denormalized(as_array(sample), shown.view))

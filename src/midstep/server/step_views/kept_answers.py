"""Answers of the routes of a step from what was kept of a stop, in place of a live run."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query
from starlette.responses import Response

from midstep.server.problems import Refusal
from midstep.server.responses import StrictJsonResponse
from midstep.server.runs.kept_step import KeptStep

StopId = Annotated[
    str | None,
    Query(
        max_length=64,
        description="What was kept of this stop, by its id in GET …/evidence; else what is shown "
        "now, or was kept last.",
    ),
]
ONLY_JSON = "Of a stop that was kept there are no tensors; request format=json."


KEPT = ".kept"
"""Ends the etags of what was kept."""


def stop_of(etag: str | None) -> str | None:
    """The stop that an etag names; None for those of captures.

    >>> stop_of("80.t1-end.2.kept"), stop_of("80.0.7")
    ('80.t1-end', None)
    """
    if etag is None or not etag.endswith(KEPT):
        return None
    return etag.removesuffix(KEPT).rpartition(".")[0]


def kept_batch(kept: KeptStep, format: str) -> Response:  # noqa: A002 - the name on the wire
    """The samples that were kept, whichever were requested."""
    if format == "safetensors":
        raise Refusal(422, "no_tensor", ONLY_JSON)
    batch = kept.batch()
    if batch is None:
        raise Refusal(404, "no_batch", f"The batch of this stop was not kept: {_why(kept)}.")
    return StrictJsonResponse(batch, headers=_etag(batch["etag"]))


def kept_picture(kept: KeptStep, layer: str) -> Response:
    """The picture of these samples."""
    batch, picture = kept.batch(), kept.picture(layer)
    if batch is None or picture is None:
        raise Refusal(404, "no_picture", "No picture of samples was kept of this stop.")
    return Response(picture, media_type="image/png", headers=_etag(batch["etag"]))


def kept_sample(kept: KeptStep, index: int, format: str, layer: str) -> Response:  # noqa: A002 - as above
    """One sample at full resolution, if it was kept."""
    if format == "safetensors":
        numbers = kept.sample_numbers(index)
        if numbers is None:
            raise Refusal(422, "no_tensor", ONLY_JSON)
        return Response(numbers, media_type="application/octet-stream")
    sample = kept.sample(index)
    if sample is None:
        message = f"Sample {index:,} was not kept at full resolution; the batch has its tile."
        raise Refusal(404, "no_sample", message)
    if format == "json":
        return StrictJsonResponse(sample, headers=_etag(sample["etag"]))
    picture = kept.sample_picture(index, layer)
    if picture is None:
        raise Refusal(404, "no_picture", "This sample is not an image; request format=json.")
    return Response(picture, media_type="image/png", headers=_etag(sample["etag"]))


def kept_panels(kept: KeptStep) -> dict[str, Any]:
    """The keys of the step data that was kept, with the panel of each."""
    entries = {key: kept.step_data(key) for key in kept.entries}
    return {key: entry["panel"] for key, entry in entries.items() if entry is not None}


def kept_entry(kept: KeptStep, key: str, format: str) -> Response:  # noqa: A002 - as above
    """One entry of the step data."""
    if format == "safetensors":
        raise Refusal(422, "no_tensor", ONLY_JSON)
    entry = kept.step_data(key)
    if entry is None:
        raise Refusal(404, "no_step_data", "Nothing of this name was kept of this stop.")
    return StrictJsonResponse(entry)


def _why(kept: KeptStep) -> str:
    return kept.not_kept().get("batch", "it did not fit, or its file is damaged")


def _etag(etag: str) -> dict[str, str]:
    return {"etag": f'"{etag}"'}

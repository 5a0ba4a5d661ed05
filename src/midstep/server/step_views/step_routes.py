"""Routes of the batch and the step data. They are encoded in the thread of the request."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Query
from starlette.responses import Response

from midstep.control import CapturedBatch
from midstep.control.capture.captured_data import CapturedSamples
from midstep.server.dependencies import Format, RunDependency
from midstep.server.problems import Refusal
from midstep.server.responses import BINARY, SafetensorsResponse, StrictJsonResponse
from midstep.server.runs.run_view import RunView
from midstep.server.step_views.batch_json import (
    MAX_SHOWN,
    describe_sample,
    describe_samples,
    sample_tensor,
)
from midstep.server.step_views.kept_answers import (
    StopId,
    kept_batch,
    kept_entry,
    kept_panels,
    kept_picture,
    kept_sample,
    stop_of,
)
from midstep.server.step_views.sample_pictures import picture_of, picture_of_sample
from midstep.server.step_views.step_data_json import (
    encode_step_data,
    fits_safetensors,
    hint_fields,
    tensors_within,
)
from midstep.server.step_views.step_schemas import (
    BatchOut,
    SampleOut,
    StepDataKeys,
    StepDataOut,
)

router = APIRouter()


_PICTURE: dict[int | str, dict[str, Any]] = {
    200: {"content": {"image/png": {"schema": {"type": "string", "format": "binary"}}}},
    304: {"description": "The capture that If-None-Match names is still the newest."},
}
_JSON_OR_BYTES: dict[int | str, dict[str, Any]] = {**BINARY, 304: _PICTURE[304]}
_SAMPLE: dict[int | str, dict[str, Any]] = {
    200: {"content": {**BINARY[200]["content"], **_PICTURE[200]["content"]}},
}
First = Annotated[int, Query(ge=0, le=2**31, description="Index of the first sample.")]
Count = Annotated[int, Query(ge=1, le=MAX_SHOWN, description="How many samples are shown.")]
Layer = Annotated[
    Literal["image", "mask", "prediction"],
    Query(description="The images, or the classes of their pixels as bytes."),
]
Etag = Annotated[
    str | None,
    Query(max_length=64, description="Only of this capture; 409 if it is no longer held."),
]
Known = Annotated[
    str | None, Header(alias="If-None-Match", description="The etag of a capture that is known.")
]


@router.get("/batch", response_model=BatchOut, responses=_JSON_OR_BYTES)
def batch(
    run: RunDependency,
    first: First = 0,
    count: Count = 64,
    inline: Annotated[bool, Query(description="Put a small picture into the JSON.")] = False,
    format: Format = "json",  # noqa: A002 - the name on the wire
    stop: StopId = None,
    known: Known = None,
) -> Response:
    """The last captured batch without its picture; as safetensors all of it, at full resolution.

    A request for what no stream shows leases it for 5 s; the first answer waits for the end of the
    step in progress, at most 2 s.
    """
    kept = run.kept.find(stop)
    if kept is not None:
        return kept_batch(kept, format)
    if format == "safetensors":
        return _batch_tensors(_whole_batch(run))
    captured = _captured(run, first, count)
    if _is_known(known, captured.etag):
        return _not_modified(captured.etag)
    shown = captured.samples(first, count)
    return StrictJsonResponse(
        describe_samples(shown, inline=inline), headers=_etag_header(shown.etag)
    )


@router.get("/batch/picture", response_class=Response, responses=_PICTURE)
def batch_picture(
    run: RunDependency,
    first: First = 0,
    count: Count = 64,
    layer: Layer = "image",
    etag: Etag = None,
    stop: StopId = None,
    known: Known = None,
) -> Response:
    """The picture of the shown samples; a pixel with alpha 0 has a value that is not finite."""
    kept = run.kept.find(stop or stop_of(etag))
    if kept is not None:
        return kept_picture(kept, layer)
    captured = _captured(run, first, count, etag)
    if _is_known(known, captured.etag):
        return _not_modified(captured.etag)
    shown = captured.samples(first, count)
    picture = picture_of(shown, layer)
    if picture is None:
        message = f"The samples of this batch are {shown.layout.kind}, without a picture."
        if layer != "image":
            message = f"These samples have no {layer}."
        raise Refusal(404, "no_picture", message)
    return _png(picture, shown.etag)


@router.get("/batch/sample", response_model=SampleOut, responses=_SAMPLE)
def batch_sample(
    run: RunDependency,
    index: Annotated[int, Query(ge=0, le=2**31, description="Position in the batch.")],
    format: Annotated[  # noqa: A002 - the name on the wire
        str, Query(pattern="^(json|png|safetensors)$", description="json, png or safetensors")
    ] = "json",
    layer: Layer = "image",
    etag: Etag = None,
    stop: StopId = None,
) -> Response:
    """One sample at full resolution. The whole batch is leased for 5 s.

    The PNG of an image sequence has all its images, as `grid` describes it.
    """
    kept = run.kept.find(stop or stop_of(etag))
    if kept is not None:
        return kept_sample(kept, index, format, layer)
    captured = _whole_batch(run, etag)
    if format == "json":
        return StrictJsonResponse(
            describe_sample(captured, index), headers=_etag_header(captured.etag)
        )
    if format == "safetensors":
        sample = sample_tensor(captured, index)
        if sample is None:
            raise Refusal(422, "no_tensor", "This sample is not a tensor; request format=json.")
        return SafetensorsResponse({"sample": sample}, {"step": str(captured.step)})
    picture = picture_of_sample(captured, index, layer)
    if picture is None:
        raise Refusal(404, "no_picture", "This sample is not an image; request format=json.")
    return _png(picture, captured.etag)


def _png(data: bytes, etag: str) -> Response:
    return Response(data, media_type="image/png", headers=_etag_header(etag))


def _captured(
    run: RunView, first: int, count: int, etag: str | None = None
) -> CapturedBatch | CapturedSamples:
    """The capture that shows these samples, or a 404 or 409 that says why there is none."""
    if etag is not None:
        named = _named(run, etag)
        if not named.holds(first, count):
            raise _other_step()
        return named
    captured = run.captured_batch(first, count)
    if captured is None:
        raise _no_batch(run)
    return captured


def _named(run: RunView, etag: str) -> CapturedBatch | CapturedSamples:
    named = run.capture_named(etag)
    if named is None:
        raise _other_step()
    return named


def _other_step() -> Refusal:
    return Refusal(409, "other_step", "This capture is no longer held. GET …/batch has the newest.")


def _whole_batch(run: RunView, etag: str | None = None) -> CapturedBatch:
    captured = run.captured_batch(0, None) if etag is None else _named(run, etag)
    if not isinstance(captured, CapturedBatch):
        raise _no_batch(run)
    return captured.arrived()


def _no_batch(run: RunView) -> Refusal:
    if not run.is_live:
        message = "The run has ended, and none of its batches was kept. A pause keeps one."
        return Refusal(404, "no_batch", message)
    return Refusal(
        404,
        "no_batch",
        "No batch is captured yet. Pause the run, or keep the page open for one step.",
    )


def _etag_header(etag: str) -> dict[str, str]:
    return {"etag": f'"{etag}"'}


def _is_known(known: str | None, etag: str) -> bool:
    given = [] if known is None else known.split(",")
    return f'"{etag}"' in (each.strip().removeprefix("W/") for each in given)


def _not_modified(etag: str) -> Response:
    return Response(status_code=304, headers=_etag_header(etag))


def _batch_tensors(captured: CapturedBatch) -> Response:
    tensor = captured.main_tensor
    if tensor is None or not fits_safetensors(tensor):
        message = "This batch has no dense tensor of real numbers; request format=json."
        raise Refusal(422, "no_tensor", message)
    metadata = {"step": str(captured.step), "loss": str(captured.loss)}
    return SafetensorsResponse({"batch": tensor}, metadata)


@router.get("/step_data/keys", response_model=StepDataKeys)
def step_data_keys(run: RunDependency, stop: StopId = None) -> Response:
    """The keys of the step data, with the panel of each."""
    kept = run.kept.find(stop)
    of_stop = {} if kept is None else kept_panels(kept)
    if kept is not None and stop is not None:
        step = kept.step if of_stop else None
        return StrictJsonResponse({"step": step, "keys": list(of_stop), "panels": of_stop})
    shown = run.step_data()
    described = {key: panel.describe() for key, panel in shown.panels.items()}
    panels = {key: described.get(key) for key in shown.values} | of_stop
    step = shown.step if shown.values else kept.step if kept is not None and of_stop else None
    return StrictJsonResponse({"step": step, "keys": list(panels), "panels": panels})


@router.get("/step_data/{key:path}", response_model=StepDataOut, responses=BINARY)
def step_data(
    run: RunDependency,
    key: str,
    full: Annotated[bool, Query(description="Send large tensors too, not only a summary.")] = False,
    format: Format = "json",  # noqa: A002 - the name on the wire
    stop: StopId = None,
) -> Response:
    """One entry of the step data."""
    kept = run.kept.find(stop)
    if kept is not None and (stop is not None or key in kept.entries):
        return kept_entry(kept, key, format)
    shown = run.step_data(key)
    if key not in shown.values:
        raise Refusal(
            404,
            "no_step_data",
            "Nothing of this name was captured in this step. GET …/step_data/keys lists the names.",
        )
    value, step = shown.values[key], shown.step_of(key)
    if format == "safetensors":
        return _step_tensors(key, value, step)
    # The value is a clone of the step, so it is encoded here without delaying the training.
    encoded = encode_step_data(value, full=full)
    paused_at = run.paused_at
    if paused_at is not None and step < paused_at:
        notes = (encoded["note"], _why_earlier(step, paused_at))
        encoded["note"] = "; ".join(note for note in notes if note is not None)
    return StrictJsonResponse(
        {"key": key, "step": step, **encoded, **hint_fields(shown.panels.get(key), value, encoded)}
    )


def _why_earlier(step: int, paused_at: int) -> str:
    return (
        f"this is step {step:,}, the last one captured before the run was paused after step "
        f"{paused_at:,}; make one step to see its data"
    )


def _step_tensors(key: str, value: Any, step: int) -> Response:
    tensors = tensors_within(value, key)
    if not tensors:
        raise Refusal(422, "no_tensor", f"{key!r} contains no tensor; request format=json.")
    return SafetensorsResponse(tensors, {"step": str(step)})

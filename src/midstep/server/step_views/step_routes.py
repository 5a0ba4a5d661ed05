"""Routes of the batch and the step data. They are encoded in the thread of the request."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.responses import Response

from midstep.control import CapturedBatch
from midstep.control.panels import Panel, panel_problem
from midstep.server.dependencies import Format, RunDependency
from midstep.server.problems import Refusal
from midstep.server.responses import BINARY, SafetensorsResponse, StrictJsonResponse
from midstep.server.step_views.batch_picture import describe_batch, main_tensor
from midstep.server.step_views.step_data_json import (
    encode_step_data,
    fits_safetensors,
    tensors_within,
)
from midstep.server.step_views.step_schemas import BatchOut, StepDataKeys, StepDataOut

router = APIRouter()


@router.get("/batch", response_model=BatchOut, responses=BINARY)
def batch(run: RunDependency, format: Format = "json") -> Response:  # noqa: A002 - the name on the wire
    """The last captured batch, as a picture or as a tensor."""
    captured = run.batch()
    if captured is None and not run.is_live:
        raise Refusal(404, "no_batch", "The run has ended; its last batch was not kept.")
    if captured is None:
        raise Refusal(
            404,
            "no_batch",
            "No batch is captured yet. Pause the run, or keep the page open for one step.",
        )
    if format == "safetensors":
        return _batch_tensors(captured)
    return StrictJsonResponse(describe_batch(captured))


def _batch_tensors(captured: CapturedBatch) -> Response:
    tensor = main_tensor(captured.batch)
    if tensor is None or not fits_safetensors(tensor):
        message = "This batch has no dense tensor of real numbers; request format=json."
        raise Refusal(422, "no_tensor", message)
    metadata = {"step": str(captured.step), "loss": str(captured.loss)}
    return SafetensorsResponse({"batch": tensor}, metadata)


@router.get("/step_data/keys", response_model=StepDataKeys)
def step_data_keys(run: RunDependency) -> Response:
    """The keys of the step data, with the panel of each."""
    shown = run.step_data()
    described = {key: panel.describe() for key, panel in shown.panels.items()}
    panels = {key: described.get(key) for key in shown.values}
    step = shown.step if shown.values else None
    return StrictJsonResponse({"step": step, "keys": list(shown.values), "panels": panels})


@router.get("/step_data/{key:path}", response_model=StepDataOut, responses=BINARY)
def step_data(
    run: RunDependency,
    key: str,
    full: Annotated[bool, Query(description="Send large tensors too, not only a summary.")] = False,
    format: Format = "json",  # noqa: A002 - the name on the wire
) -> Response:
    """One entry of the step data."""
    shown = run.step_data()
    if key not in shown.values:
        raise Refusal(
            404,
            "no_step_data",
            "Nothing of this name was captured in this step. GET …/step_data/keys lists the names.",
        )
    value, step = shown.values[key], shown.step
    if format == "safetensors":
        return _step_tensors(key, value, step)
    # The value is a clone of the step, so it is encoded here without delaying the training.
    encoded = encode_step_data(value, full=full)
    return StrictJsonResponse(
        {"key": key, "step": step, **encoded, **_hint(shown.panels.get(key), value, encoded)}
    )


def _hint(panel: Panel | None, value: Any, encoded: dict[str, Any]) -> dict[str, Any]:
    """The fields `panel`, `fits` and `note`. A panel that does not fit the data is no error."""
    if panel is None:
        return {"panel": None, "fits": True}
    try:
        reason = panel_problem(panel, value)
    except Exception as error:  # noqa: BLE001 - the data may be an object of the user's code
        reason = f"the panel could not be checked: {type(error).__name__}"
    notes = [note for note in (encoded["note"], reason) if note is not None]
    return {
        "panel": panel.describe(),
        "fits": reason is None,
        "note": "; ".join(notes) or None,
    }


def _step_tensors(key: str, value: Any, step: int) -> Response:
    tensors = tensors_within(value, key)
    if not tensors:
        raise Refusal(422, "no_tensor", f"{key!r} contains no tensor; request format=json.")
    return SafetensorsResponse(tensors, {"step": str(step)})

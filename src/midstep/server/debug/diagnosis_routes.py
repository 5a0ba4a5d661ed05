"""The route of the last stop: where it came from, and the traceback of an error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter
from pydantic import ValidationError
from starlette.responses import Response

from midstep.server.debug.diagnosis_schemas import DiagnosisOut, FailureOut, StopOut
from midstep.server.dependencies import CanControl, RunDependency
from midstep.server.responses import StrictJsonResponse

router = APIRouter()
MOST_TRACEBACK = 64 << 10
"""Characters of a traceback that are sent: the last ones, where the error is."""


@router.get("/diagnosis", response_model=StopOut)
def diagnosis(run: RunDependency, controls: CanControl) -> Response:
    """Where the last stop came from, and the error of a failed run; also of a stored run.

    It stays after the run continues; `step` and `timeline` say which stop it is about. A view-only
    link gets no traceback.
    """
    return StrictJsonResponse(
        {
            "diagnosis": _checked(run.last_stop.diagnosis),
            "failure": _failure(run.last_stop.failure, controls=controls),
        }
    )


def _checked(record: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The diagnosis if it has the form of one: a stored record may come from a stranger."""
    if record is None:
        return None
    try:
        return DiagnosisOut.model_validate(DiagnosisOut.pick(record)).model_dump()
    except ValidationError:
        return None


def _failure(record: Mapping[str, Any] | None, *, controls: bool) -> dict[str, Any] | None:
    if record is None:
        return None
    fields = FailureOut.pick(record)
    trace, step = fields["traceback"], fields["step"]
    return {
        "error": str(fields["error"]),
        "traceback": trace[-MOST_TRACEBACK:] if controls and isinstance(trace, str) else None,
        "step": step if isinstance(step, int) else None,
    }

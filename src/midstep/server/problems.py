"""Error responses: every error is sent as a `Problem`, without internals of the server."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from midstep.core.errors import ConfigError, ControlError, ExpressionError, StorageError
from midstep.server.responses import StrictJsonResponse
from midstep.server.schema_base import Problem

log = logging.getLogger("midstep.server")

ERROR_RESPONSES: dict[int | str, dict[str, Any]] = {
    "default": {
        "model": Problem,
        "description": "400 not strict JSON · 401 no token or a wrong one · 403 wrong host, origin "
        "or site, or a viewer token on a write · 404 nothing here · 405 method · 409 not possible "
        "in the present state · 413 body over 1 MiB · 415 not JSON · 422 a field is wrong · "
        "429 too many wrong tokens · 500 an internal error, with its id · 503 an error of the disk",
    }
}
"""For the OpenAPI document: the error responses of all routes."""

VIEW_ONLY = "This link is view-only. Ask for a link that can control the run."
NOT_FOUND = "There is nothing at this address. GET /api/v1/runs lists the runs."
_MEMBERS = frozenset({"bool", "float", "int", "none", "str"})
"""Names that pydantic appends to the location of a field that takes one of several types."""
_ERROR_NAMES = {405: "method", 409: "refused", 422: "invalid"}


class Refusal(Exception):  # noqa: N818 - a response, not an error of the program
    """Raised by a route to answer with a `Problem`.

    Args:
        status: HTTP status.
        error: a short name that does not change.
        message: what happened and what to do.
        field: the field that is wrong.
        command_id: the command that was refused.
        incident: the id under which the log has the error.
    """

    def __init__(
        self,
        status: int,
        error: str,
        message: str,
        *,
        field: str | None = None,
        command_id: str | None = None,
        incident: str | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.problem = Problem(
            error=error, message=message, field=field, command_id=command_id, incident=incident
        )

    def answer(self, headers: Mapping[str, str] | None = None) -> StrictJsonResponse:
        """The response with the `Problem`."""
        return StrictJsonResponse(self.problem.model_dump(), self.status, headers)


def not_found() -> Refusal:
    """A 404 that is the same for every unknown id and address, so that ids cannot be probed."""
    return Refusal(404, "not_found", NOT_FOUND)


def too_large(size: str) -> Refusal:
    """A 409 for what is too large as JSON."""
    return Refusal(409, "too_large", f"{size}, too many for JSON; request format=safetensors.")


def incident_answer(error: Exception, method: str) -> StrictJsonResponse:
    """The response to an unhandled error: the log has all of it, the caller gets an id."""
    incident = secrets.token_hex(6)
    log.error("incident %s while answering %s", incident, method, exc_info=error)
    message = "Internal error. The server's log has the details."
    return Refusal(500, "incident", message, incident=incident).answer()


def add_handlers(app: FastAPI) -> None:
    """Register the handler of all exceptions that become a `Problem`."""
    ours = (Refusal, ConfigError, ControlError, StorageError)
    for kind in (*ours, HTTPException, RequestValidationError):
        app.add_exception_handler(kind, _answer)


def _answer(_: Request, error: Exception) -> Response:
    return _as_refusal(error).answer(getattr(error, "headers", None))


def _as_refusal(error: Exception) -> Refusal:
    match error:
        case Refusal():
            return error
        case HTTPException(status_code=404):
            return not_found()
        case HTTPException(status_code=status):
            return Refusal(status, _ERROR_NAMES.get(status, "http"), str(error.detail))
        case RequestValidationError():
            first = error.errors()[0]
            field = _field(first["loc"])
            message = f"{field or 'the request'}: {first['msg']}"
            return Refusal(422, "invalid", message, field=field)
        case ExpressionError():
            return Refusal(422, "expression", str(error), field="condition.expression")
        case ConfigError():
            return Refusal(422, "invalid", str(error))
        case ControlError():
            return Refusal(409, "refused", str(error))
    # A `StorageError`. Its message names a path of this machine, so it goes into the log only.
    log.error("storage error", exc_info=error)
    return Refusal(
        503, "storage", "A file could not be read or written. The server's log names it."
    )


def _field(location: Sequence[Any]) -> str | None:
    """The dotted name of the field, without `body` or `query` and names of union members."""
    parts = [str(part) for part in location[1:]]
    if len(parts) > 2 and parts[0] == "condition":
        del parts[1]
    while len(parts) > 1 and (parts[-1] in _MEMBERS or parts[-1].startswith("function-")):
        parts.pop()
    return ".".join(parts) or None

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

NOT_FOUND = "There is nothing at this address. GET /api/v1/runs lists the runs."
_MEMBERS = frozenset({"bool", "float", "int", "none", "str"})
"""Names that pydantic appends to the location of a field that takes one of several types."""
_ERROR_NAMES = {404: "not_found", 405: "method", 409: "refused", 422: "invalid"}


class Refusal(Exception):  # noqa: N818 - a response, not an error of the program
    """Raised by a route to answer with a `Problem`.

    Args:
        status: HTTP status.
        error: a short name that does not change.
        message: what happened and what to do.
        field: the field that is wrong.
        command_id: the command that was refused.
    """

    def __init__(
        self,
        status: int,
        error: str,
        message: str,
        *,
        field: str | None = None,
        command_id: str | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.error, self.message = status, error, message
        self.field, self.command_id = field, command_id


def not_found() -> Refusal:
    """A 404 that is the same for every unknown id and address, so that ids cannot be probed."""
    return Refusal(404, "not_found", NOT_FOUND)


def problem_answer(
    status: int,
    error: str,
    message: str,
    *,
    headers: Mapping[str, str] | None = None,
    **rest: str | None,
) -> StrictJsonResponse:
    """A `Problem` as a response."""
    body = Problem(error=error, message=message, **rest).model_dump()
    return StrictJsonResponse(body, status_code=status, headers=dict(headers or {}))


def incident_answer(error: Exception, method: str) -> StrictJsonResponse:
    """The response to an unhandled error: the log has all of it, the caller gets an id."""
    incident = secrets.token_hex(6)
    log.error("incident %s while answering %s", incident, method, exc_info=error)
    return problem_answer(
        500, "incident", "Internal error. The server's log has the details.", incident=incident
    )


def add_handlers(app: FastAPI) -> None:
    """Register a handler for each exception that becomes a `Problem`."""
    app.add_exception_handler(Refusal, _refusal)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(ConfigError, _config)
    app.add_exception_handler(ControlError, _control)
    app.add_exception_handler(StorageError, _storage)


def _refusal(_: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)  # noqa: S101 - registered for this class only
    return problem_answer(
        error.status, error.error, error.message, field=error.field, command_id=error.command_id
    )


def _http(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - registered for this class only
    message = NOT_FOUND if error.status_code == 404 else str(error.detail)
    name = _ERROR_NAMES.get(error.status_code, "http")
    return problem_answer(error.status_code, name, message, headers=error.headers)


def _invalid(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)  # noqa: S101 - registered for this class only
    first = error.errors()[0]
    field = _field(first["loc"])
    message = f"{field or 'the request'}: {first['msg']}"
    return problem_answer(422, "invalid", message, field=field)


def _field(location: Sequence[Any]) -> str | None:
    """The dotted name of the field, without `body` or `query` and names of union members."""
    parts = [str(part) for part in location[1:]]
    if len(parts) > 2 and parts[0] == "condition":
        del parts[1]
    while len(parts) > 1 and (parts[-1] in _MEMBERS or parts[-1].startswith("function-")):
        parts.pop()
    return ".".join(parts) or None


def _config(_: Request, error: Exception) -> Response:
    name = "expression" if isinstance(error, ExpressionError) else "invalid"
    field = "condition.expression" if isinstance(error, ExpressionError) else None
    return problem_answer(422, name, str(error), field=field)


def _control(_: Request, error: Exception) -> Response:
    return problem_answer(409, "refused", str(error))


def _storage(_: Request, error: Exception) -> Response:
    # The message names a path of this machine, so it goes into the log only.
    log.error("storage error", exc_info=error)
    return problem_answer(
        503, "storage", "A file could not be read or written. The server's log names it."
    )

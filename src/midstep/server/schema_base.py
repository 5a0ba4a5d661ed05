"""The base classes of request and response models, and models that all topics share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from midstep.facts.liveness.run_liveness import State

RunState = Literal[State, "starting", "pausing", "paused", "stepping", "rewinding", "busy"]

Number = float | Literal["NaN", "Infinity", "-Infinity"]
"""A number in JSON. Strict JSON has no NaN and no infinities, so they are sent as strings."""


class In(BaseModel):
    """Base of request models: unknown fields are errors."""

    model_config = ConfigDict(extra="forbid")


class Out(BaseModel):
    """Base of response models."""

    model_config = ConfigDict(extra="forbid")

    @classmethod
    def pick(cls, record: Mapping[str, Any]) -> dict[str, Any]:
        """The fields of this model from a record of a file; a missing one is None."""
        return {name: record.get(name) for name in cls.model_fields}


class Health(Out):
    """The response of the health route, which needs no token."""

    status: Literal["ok"] = "ok"
    version: str
    proofs: list[str]
    """Keyed hashes of the challenge, one per token: see `client.token_proof`. Empty without a
    challenge."""


class Problem(Out):
    """The body of every error response: what happened and what to do."""

    error: str
    """A short name that does not change: `running`, `not_found`, `expression`."""
    message: str
    field: str | None = None
    command_id: str | None = None
    incident: str | None = None
    """Id under which the server's log has an unhandled error."""

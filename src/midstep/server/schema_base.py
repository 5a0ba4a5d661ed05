"""What every model of a request or a response is built from, and the models of no topic."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

RunState = Literal[
    "starting",
    "running",
    "pausing",
    "paused",
    "stepping",
    "rewinding",
    "busy",
    "stopped",
    "finished",
    "failed",
    "killed",
    "lost",
    "not responding",
]

Number = float | Literal["NaN", "Infinity", "-Infinity"]
"""A scalar on the wire: strict JSON has no NaN, so the three travel as strings."""


class In(BaseModel):
    """Base of everything that comes in: no unknown fields, nothing coerced."""

    model_config = ConfigDict(extra="forbid")


class Out(BaseModel):
    """Base of everything that goes out."""

    model_config = ConfigDict(extra="forbid")


class Health(Out):
    """An answer without run data, open to all."""

    status: Literal["ok"] = "ok"
    version: str
    proofs: list[str]
    """Keyed hashes of a challenge, one per token: see `client.token_proof`. Empty without one."""


class Problem(Out):
    """Every refusal: what happened and what to do."""

    error: str
    """A short stable word: `running`, `not_found`, `expression`."""
    message: str
    field: str | None = None
    command_id: str | None = None
    incident: str | None = None
    """Id of an unhandled error in the server's log."""

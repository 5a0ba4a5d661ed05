"""Responses about what was kept of a run: its stops, its end, its checkpoints."""

from __future__ import annotations

from typing import Literal

from midstep.server.debug.breakpoint_schemas import Evidence
from midstep.server.schema_base import Out

StopCause = Literal[
    "breakpoint",
    "pause",
    "step",
    "run_until",
    "back",
    "hold",
    "finished",
    "stopped",
    "exception",
    "other",
]


class KeptStopOut(Out):
    """One stop of a run, or its end."""

    id: str
    """The `stop` of GET …/debug/batch and …/debug/step_data/{key}."""
    kept: bool
    """Whether anything was kept; if not, the facts alone know of the stop."""
    step: int
    """Finished steps."""
    timeline: int
    current: bool
    """Whether it belongs to the present timeline."""
    attempt: int | None
    at: float | None
    """Seconds since 1970."""
    lasted_s: float | None
    """How long the run was paused; null if that is not known."""
    cause: StopCause
    who: str | None
    """Who paused it: page, cli, python, breakpoint, …"""
    reason: str | None
    """Why, in words: a signal, an error in one line."""
    breakpoint: Evidence | None
    batch_step: int | None
    """Index of the batch that was kept; null if none was."""
    samples: int | None
    """How many of its samples were kept."""
    of_samples: int | None
    """How many it had."""
    step_data: list[str]
    """Keys of the step data that was kept."""
    not_kept: dict[str, str]
    """What was not kept, with the reason."""
    bytes: int


class KeptCheckpoint(Out):
    """A checkpoint of a run."""

    name: str
    step: int
    timeline: int
    current: bool
    """Whether it belongs to the present timeline."""
    best: bool
    """Whether it has the best validation loss so far."""
    at: float
    """When it was written, in seconds since 1970."""
    bytes: int


class EvidenceOut(Out):
    """What was kept of a run besides its facts."""

    stops: list[KeptStopOut]
    """The last 500 stops, sorted by time, without the ends."""
    end: KeptStopOut | None
    """The end of the last attempt; null if it left none, as after a kill."""
    shown: str | None
    """The stop that GET …/debug/batch shows of a run that has ended."""
    checkpoints: list[KeptCheckpoint]
    """The checkpoints, sorted by step."""
    console_bytes: int
    """What was printed, as far as it was kept."""
    bytes: int
    """All of this, without the checkpoints."""

"""Requests and responses of sweeps."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StrictBool, StrictInt

from midstep.server.runs.run_schemas import ListedState
from midstep.server.schema_base import In, Number, Out

CellStateOut = Literal["missing", "running", "finished", "stopped", "killed", "failed"]


class SweepAxisOut(Out):
    """A setting that the sweep varies."""

    key: str
    """Full key of the override."""
    label: str
    """Last part of the key."""
    values: list[str]
    is_seed: bool
    """Whether its values repeat a training instead of changing it."""


class SweepCellOut(Out):
    """One cell of a sweep."""

    job: int
    choices: dict[str, str]
    """The value of each axis by its key."""
    state: CellStateOut
    run_state: ListedState | None
    """State of its run; null when it has none yet."""
    change: Literal["code", "data", "accepted code"] | None
    """What differs now from when its run began: same config, other code or data."""
    open: bool
    """Whether a start of the sweep trains it."""
    share: float | None
    """Share of its steps that is done."""
    step: int | None
    epoch: int | None
    value: Number | None
    """The shown value; of a running cell, the one so far."""
    values: dict[str, Number]
    """Best validation loss and the last value of each scalar."""
    error: str | None
    """Why it failed or was killed."""
    address: str
    """Hash of config, code and data."""
    run_id: str | None
    """Id of its run; null when it has none yet."""
    name: str
    """Name of its run directory."""


class SweepPairOut(Out):
    """Two finished cells that differ in one axis alone."""

    job: int
    against: int
    difference: Number
    """Value of `job` minus value of `against`."""


class SweepEffectOut(Out):
    """What one level of an axis changes against another one, with the other axes held."""

    axis: str
    level: str
    against: str
    held: dict[str, str]
    """Settings of the other axes that all pairs share; empty when they vary over the pairs."""
    pairs: list[SweepPairOut]
    mean: Number | None
    low: Number | None
    """Lower end of the 95 % bootstrap interval; null below two pairs."""
    high: Number | None
    seeds: int
    """Different seeds among the pairs."""
    enough: bool
    """Whether there are seeds enough to rank."""
    better: str | None
    """The better level; null when the interval contains 0 or there are too few seeds."""


class SweepRowOut(Out):
    """A sweep in the list of sweeps."""

    id: str
    name: str
    directory: str
    """Relative to the outputs folder."""
    created: float
    cells: int
    states: dict[str, int]
    """How many cells are in each state."""
    open: int
    """Cells that a start of the sweep trains."""
    pool: bool
    """Whether a process runs its cells now."""


class SweepList(Out):
    """The sweeps under the outputs folder, the newest first."""

    sweeps: list[SweepRowOut]
    damaged: list[str]
    """Folders whose plan cannot be read."""


class SweepOut(SweepRowOut):
    """One sweep with its cells and the effects of its axes."""

    axes: list[SweepAxisOut]
    fixed: list[str]
    """Overrides that all cells share."""
    value: str
    """The shown value: `best_val_loss` or a scalar."""
    value_names: list[str]
    """Values that can be shown."""
    lower_is_better: bool
    grid: list[SweepCellOut]
    effects: list[SweepEffectOut]
    """Each level of each axis against the first one, over all pairs."""
    comparisons: list[SweepEffectOut]
    """Every two levels of each axis except the seed, at fixed settings, paired by seed."""
    fewest_seeds: int
    """Seeds below which no level is called better."""
    can_start: bool
    why_not: str | None
    """Why its cells cannot be started from here."""


class SweepStartIn(In):
    """Which cells to run."""

    jobs: Annotated[StrictInt, Field(ge=1, le=64)] = 2
    """Most cells at a time."""
    retry_failed: StrictBool = False
    """Also run cells that failed."""
    cells: Annotated[list[Annotated[StrictInt, Field(ge=0)]], Field(max_length=10_000)] | None = (
        None
    )
    """Only these cells; all open ones when left out."""


class SweepActionOut(Out):
    """What was done to a sweep."""

    id: str
    pool: bool
    """Whether a process runs its cells now."""

"""Every command of midstep: its payload, its result, and `COMMANDS` by name.

This is the only place where a payload or a result is written down. `session` and `live` register
handlers for the commands that their runs support; the gate of `control` runs the first five.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, TypedDict

from midstep.core.commands.definition import Below, CommandDefinition, Help, Least, Most, NoPayload
from midstep.core.errors import ConfigError

# A browser holds whole numbers exactly up to 2**53, about 9 * 10**15.
MOST_STEPS = Most(10**9)
LAST_STEP = Most(10**15)


class StepReached(TypedDict):
    """Where the run is once the command has taken effect."""

    step: int


# -- pause, step and continue: run by the gate ----------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class StepPayload:
    """How many steps to run."""

    n: Annotated[int, Least(1), MOST_STEPS, Help("Number of steps.")] = 1


@dataclass(frozen=True, kw_only=True)
class RunUntilPayload:
    """Where to pause."""

    step: Annotated[int, Least(0), LAST_STEP, Help("Number of finished steps to pause at.")]


PAUSE = CommandDefinition(
    name="pause",
    payload=NoPayload,
    result=StepReached,
    verb=True,
    help="Pause the run at its next step boundary.",
)
RESUME = CommandDefinition(
    name="resume", payload=NoPayload, result=StepReached, verb=True, help="Continue the run."
)
STEP = CommandDefinition(
    name="step",
    payload=StepPayload,
    result=StepReached,
    verb=True,
    needs_pause=True,
    help="Run N steps (1), then pause again. The run must be paused.",
)
RUN_UNTIL = CommandDefinition(
    name="run_until",
    payload=RunUntilPayload,
    result=StepReached,
    verb=True,
    help="Continue the run, and pause when STEP steps are finished.",
)
STOP = CommandDefinition(
    name="stop", payload=NoPayload, verb=True, help="End the training at its next step boundary."
)

GATE_COMMANDS = (PAUSE, RESUME, STEP, RUN_UNTIL, STOP)
"""Commands that every run takes; the gate runs them, so they have no handler."""


# -- going back, checkpoints ----------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class BackPayload:
    """How far to go back; one step if nothing is given.

    >>> BackPayload(n=3).target(10)
    7
    """

    n: Annotated[int, Least(1), MOST_STEPS, Help("Number of steps to go back.")] | None = None
    step: Annotated[int, Least(0), LAST_STEP, Help("Go back to this step.")] | None = None

    def __post_init__(self) -> None:
        if self.n is not None and self.step is not None:
            raise ConfigError("back needs n=… or step=…, not both")

    def target(self, now: int) -> int:
        """Return the step to go to from step `now`."""
        return now - (self.n or 1) if self.step is None else self.step


class FirstDifference(TypedDict):
    """The first repeated step that differed from its first execution."""

    step: int
    what: str


class NotKept(TypedDict, total=False):
    """Present if the effect of a command does not survive a kill of the process."""

    not_kept: str
    """Why it does not, in words."""


class BackResult(StepReached, NotKept, total=False):
    """Where the run is, and whether the repeated steps gave the same bits.

    `exact` is None if they could not be compared, or if a difference has another explanation;
    `text` then says which. A plain loop under `attach` gives `step` and the result alone.
    """

    timeline: int
    epoch: int
    from_step: int
    replayed: int
    exact: bool | None
    verdict: str | None
    text: str
    first_difference: FirstDifference | None


class SavedCheckpoint(TypedDict):
    """The checkpoint that was written."""

    step: int
    checkpoint: str


@dataclass(frozen=True, kw_only=True)
class LoadPayload:
    """Which checkpoint to load; the newest valid one if nothing is given."""

    step: (
        Annotated[int, Least(0), Help("Step of the checkpoint; the newest if left out.")] | None
    ) = None
    timeline: (
        Annotated[
            int, Least(0), Help("Timeline, if several have this step; the newest if left out.")
        ]
        | None
    ) = None


class TrainingPosition(NotKept):
    """Where the training is after its state was restored."""

    step: int
    epoch: int
    cursor: int
    timeline: int


BACK = CommandDefinition(
    name="back",
    payload=BackPayload,
    result=BackResult,
    verb=True,
    needs_pause=True,
    moves_training=True,
    help="Go back N steps (1), or to a step. The run must be paused.",
)
SAVE_CHECKPOINT = CommandDefinition(
    name="save_checkpoint",
    payload=NoPayload,
    alias="saveCheckpoint",
    result=SavedCheckpoint,
    help="Write a checkpoint at the next step boundary.",
)
LOAD_CHECKPOINT = CommandDefinition(
    name="load_checkpoint",
    alias="loadCheckpoint",
    payload=LoadPayload,
    result=TrainingPosition,
    needs_pause=True,
    moves_training=True,
    help="Load a checkpoint of this run.",
)
RESET_SESSION = CommandDefinition(
    name="reset_session",
    payload=NoPayload,
    alias="resetSession",
    result=TrainingPosition,
    needs_pause=True,
    moves_training=True,
    help="Return to the state before step 0.",
)


# -- hyperparameters ------------------------------------------------------------------------------

HPARAM_FACTORS = {"lr_mul": "lr", "wd_mul": "weight_decay"}
"""Fields that multiply another setting instead of replacing it."""
ALL_OPTIMIZERS = "all"


@dataclass(frozen=True, kw_only=True)
class HparamsPayload:
    """What to set in every parameter group; fields left out stay as they are.

    With several optimizers a factor is for all of them, and a value for those that `optimizer`
    names.

    >>> HparamsPayload(lr_mul=0.1).lr_mul
    0.1
    """

    lr: (
        Annotated[float, Least(0), Help("Learning rate; a scheduler continues in proportion.")]
        | None
    ) = None
    weight_decay: Annotated[float, Least(0), Help("Weight decay.")] | None = None
    lr_mul: Annotated[float, Least(0), Help("Factor for each group's learning rate.")] | None = None
    wd_mul: Annotated[float, Least(0), Help("Factor for each group's weight decay.")] | None = None
    momentum: Annotated[float, Least(0), Help("Momentum of SGD and RMSprop.")] | None = None
    betas: (
        Annotated[
            tuple[Annotated[float, Least(0), Below(1)], Annotated[float, Least(0), Below(1)]],
            Help("The two decay rates of Adam and similar optimizers."),
        ]
        | None
    ) = None
    eps: Annotated[float, Least(0), Help("Term added to the denominator.")] | None = None
    optimizer: (
        Annotated[str, Help("Name of one of several optimizers, or `all`; a list has 0, 1, …")]
        | None
    ) = None

    def __post_init__(self) -> None:
        settings = {name: value for name, value in vars(self).items() if name != "optimizer"}
        given = [name for name, value in settings.items() if value is not None]
        if not given:
            raise ConfigError(f"set_hparams needs one of {', '.join(settings)}")
        for factor, target in HPARAM_FACTORS.items():
            if factor in given and target in given:
                raise ConfigError(f"give {target} or {factor}, not both")


class OldHparams(NotKept):
    """The values before the change by name, one per parameter group.

    A setting of another optimizer than the first is called `lr.NAME`.
    """

    old: dict[str, list[Any]]


SET_HPARAMS = CommandDefinition(
    name="set_hparams",
    alias="setHparams",
    payload=HparamsPayload,
    result=OldHparams,
    help="Change hyperparameters from the next step on, and show the old values.",
)


# -- tests and reports ----------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class CertifyPayload:
    """How many steps to run twice."""

    steps: Annotated[int, Least(1), Most(10_000), Help("Number of steps to run twice.")] = 2


class HealthReport(TypedDict):
    """A report on the health of a run: where it was made, one line of text, and the data."""

    header: dict[str, Any]
    text: str
    data: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class InfluencePayload:
    """How many samples of the last batch to compare."""

    samples: Annotated[
        int, Least(1), Most(512), Help("Compare this many samples, the first of the batch.")
    ] = 64


class SamplePair(TypedDict):
    """How much one sample changed the loss of another."""

    sample: str
    by: str
    change: float


class InfluenceResult(TypedDict):
    """How the last step changed the losses of its own samples."""

    step: int
    samples: int
    of: int
    mean_change: float
    top: list[SamplePair]
    notes: list[str]
    shown_as: list[str]
    text: str


TEST_NOW = CommandDefinition(
    name="test_now",
    payload=NoPayload,
    alias="testRun",
    result=dict[str, float],
    help="Evaluate the test loader at the next step boundary.",
)
DETERMINISM_HEALTH = CommandDefinition(
    name="determinism_health",
    alias="reportDeterminism",
    payload=CertifyPayload,
    result=HealthReport,
    needs_pause=True,
    help="Run STEPS steps twice and compare every bit. The run must be paused, and stays there.",
)
INFLUENCE = CommandDefinition(
    name="influence",
    payload=InfluencePayload,
    result=InfluenceResult,
    needs_pause=True,
    help="Show which samples of the last batch changed which sample's loss.",
)

COMMANDS: dict[str, CommandDefinition[Any]] = {
    each.name: each
    for each in (
        PAUSE,
        STEP,
        BACK,
        RESUME,
        RUN_UNTIL,
        STOP,
        SET_HPARAMS,
        SAVE_CHECKPOINT,
        LOAD_CHECKPOINT,
        RESET_SESSION,
        DETERMINISM_HEALTH,
        TEST_NOW,
        INFLUENCE,
    )
}
"""Every definition by name, in the order in which help lists them."""

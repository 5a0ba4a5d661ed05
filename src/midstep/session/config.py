"""`SessionConfig`: the settings of a session. With the defaults it trains like a plain loop."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from midstep.core.errors import ConfigError
from midstep.data.order.order_strategy import OrderConfig, OrderPolicy

Resume = Literal["never", "auto", "must"]
Amp = Literal["bf16", "fp16"]
SchedulerInterval = Literal["step", "epoch"]
CHANGEABLE = (
    "model",
    "optimizer",
    "dataset",
    "batch_size",
    "seed",
    "transform",
    "order_policy",
    "accumulate_steps",
    "extra_state",
    "world_size",
)
"""Fields of a fingerprint that `allow_changed` may name."""
NOT_RECORDED = ("console", "evidence")
"""Settings that say what is kept of a run; they change nothing of the training."""


@dataclass(frozen=True, kw_only=True)
class SessionConfig:
    """How a session trains, orders its data, takes checkpoints and resumes.

    >>> SessionConfig(data_order_policy="epoch_reseed", seed=7, accumulate_steps=2).order.seeded
    True
    """

    project: str | None = None
    """The project that the run belongs to, for its header record."""
    run_name: str | None = None
    """Exactly `save_dir/run_name`; needed to resume. If left out, a name with the time."""
    save_dir: str | Path = "outputs/runs"
    """Where run directories are made."""
    seed: int | None = None
    """Seeds every global generator before step 0, and the seeded orders. If left out, nothing."""
    device: str | None = None
    """Where to train; the model is moved there. If left out, where the model is."""
    amp: bool | Amp = False
    """Autocast to `bf16`, or to `fp16` with a scaler. True means fp16 on CUDA, else bf16."""
    grad_clip_norm: float | None = None
    """Clip gradients to this total norm; `grad_norm` in the facts is the norm before clipping."""
    accumulate_steps: int = 1
    """Batches per optimizer step. The last step of an epoch averages over those that are left."""
    scheduler_interval: SchedulerInterval | None = None
    """When the scheduler steps. If left out, OneCycleLR and CyclicLR per step, others per epoch."""
    data_order_policy: OrderPolicy = "user"
    """`user`: your own, recorded; `epoch_reseed`: seeded per epoch; `fixed_order`: seeded once."""
    enforce_sampler_state: bool = True
    """Refuse what cannot be resumed exactly. If False, report it once and continue."""
    deterministic_pauses: bool = True
    """Take a checkpoint at every pause, so that the state seen there can be loaded again."""
    val_every_n_epochs: int = 1
    """Validate after every so many epochs."""
    do_test_after: bool = False
    """Run the test loader once the training is finished."""
    checkpoint_every_steps: int | None = None
    """Also take a checkpoint after every so many steps, besides pauses, epoch ends and the end."""
    checkpoint_epochs: bool = True
    """Take a checkpoint at each epoch end and mark the best. False suits very short epochs."""
    checkpoint_keep: int = 10
    """How many checkpoints to keep; the last and the best are always kept."""
    resume: Resume = "never"
    """`never` refuses a directory with a run, `auto` continues it, `must` needs a checkpoint."""
    allow_changed: tuple[str, ...] = ()
    """Fields that may differ from the checkpoint, such as `optimizer`; the facts record each."""
    resume_check: bool = True
    """Make the first step after a resume twice, if no step after the checkpoint was recorded."""
    rewind_steps: int = 64
    """How many steps the run should be able to go back; 0 switches going back off."""
    rewind_bytes: int | None = None
    """Host memory for the snapshots of going back. If left out, a tenth of the free memory."""
    console: bool = True
    """Keep what the process prints in a file of the run directory that only you can read."""
    evidence: bool = True
    """Keep samples, layers and breakpoints of stops and of the end in the run directory."""

    def __post_init__(self) -> None:
        self._check_choices()
        for name in ("accumulate_steps", "val_every_n_epochs", "checkpoint_keep"):
            _at_least(name, getattr(self, name), 1)
        if self.checkpoint_every_steps is not None:
            _at_least("checkpoint_every_steps", self.checkpoint_every_steps, 1)
        _at_least("rewind_steps", self.rewind_steps, 0)
        if self.rewind_bytes is not None:
            _at_least("rewind_bytes", self.rewind_bytes, 0)
        limit = self.grad_clip_norm
        if limit is not None and not (limit > 0 and math.isfinite(limit)):
            raise ConfigError(f"grad_clip_norm must be above 0 and finite, got {limit}")
        if self.resume != "never" and self.run_name is None:
            raise ConfigError(f"resume={self.resume!r} needs a run_name, the run to continue")
        _ = self.order  # checks the policy, and that a seeded one has a seed

    def _check_choices(self) -> None:
        choices = {
            "resume": (self.resume, get_args(Resume)),
            "amp": (self.amp, (False, True, *get_args(Amp))),
            "scheduler_interval": (self.scheduler_interval, (None, *get_args(SchedulerInterval))),
        }
        for name, (value, known) in choices.items():
            if value not in known:
                raise ConfigError(f"{name} is {value!r}; use one of {', '.join(map(repr, known))}")
        unknown = sorted(set(self.allow_changed) - set(CHANGEABLE))
        if unknown or isinstance(self.allow_changed, str):
            raise ConfigError(
                f"allow_changed is {self.allow_changed!r}; give a tuple of {', '.join(CHANGEABLE)}"
            )

    @property
    def order(self) -> OrderConfig:
        """The settings of the data order."""
        return OrderConfig(
            policy=self.data_order_policy,
            seed=self.seed,
            enforce_sampler_state=self.enforce_sampler_state,
        )

    def describe(self) -> dict[str, Any]:
        """The settings as the header record and checkpoints store them."""
        settings = {**asdict(self), "save_dir": str(self.save_dir)}
        return {name: each for name, each in settings.items() if name not in NOT_RECORDED}


def _at_least(name: str, value: Any, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ConfigError(f"{name} must be an integer of at least {least}, got {value!r}")

"""The settings of a session. Left alone, they change nothing in a training."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from midstep.core.errors import ConfigError
from midstep.data.order.strategy import OrderConfig, OrderPolicy

__all__ = ["Amp", "Resume", "SchedulerInterval", "SessionConfig"]

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
)
"""Fields of a fingerprint that a resume may be told to accept."""


@dataclass(frozen=True, kw_only=True)
class SessionConfig:
    """How a session trains, orders its data, keeps checkpoints and resumes.

    >>> SessionConfig(data_order_policy="epoch_reseed", seed=7, accumulate_steps=2).order.seeded
    True
    """

    project: str | None = None
    """What the run belongs to; stands in its header record."""
    run_name: str | None = None
    """Exactly `save_dir/run_name`; needed to resume. Left out: a name with the time."""
    save_dir: str | Path = "outputs/runs"
    """Where run directories are made."""
    seed: int | None = None
    """Seeds every global generator before step 0, and the two seeded orders. Left out: nothing."""
    device: str | None = None
    """Where to train; the model is moved there. Left out: where the model is."""
    amp: bool | Amp = False
    """Autocast to `bf16` or `fp16`, which gets a scaler; True: fp16 on CUDA, else bf16."""
    grad_clip_norm: float | None = None
    """Largest norm over all gradients; `grad_norm` in the facts is the one before clipping."""
    accumulate_steps: int = 1
    """Batches for one optimizer step; an epoch's last step takes what is left, scaled by it."""
    scheduler_interval: SchedulerInterval | None = None
    """When the scheduler steps. Left out: OneCycleLR and CyclicLR per step, others per epoch."""
    data_order_policy: OrderPolicy = "user"
    """`user`: as it is, recorded; `epoch_reseed`: seeded for each epoch; `fixed_order`: once."""
    enforce_sampler_state: bool = True
    """Refuse what cannot be resumed exactly; if False, report it once and go on."""
    deterministic_pauses: bool = True
    """Take a checkpoint at every pause, so that what was seen there can be returned to."""
    val_every_n_epochs: int = 1
    """Validate after every so many epochs."""
    do_test_after: bool = False
    """Run the test loader once the training is finished."""
    checkpoint_every_steps: int | None = None
    """Also after every so many steps. Left out: at pauses, epoch ends, a stop and the end."""
    checkpoint_epochs: bool = True
    """Take one at each epoch's end, and mark the best; False where epochs take no time."""
    checkpoint_keep: int = 10
    """How many checkpoints to keep; the last and the best stay in any case."""
    resume: Resume = "never"
    """`never` refuses a directory in use, `auto` continues it, `must` needs a checkpoint there."""
    allow_changed: tuple[str, ...] = ()
    """Fields that may differ from the checkpoint at a resume, as `optimizer`; each is a fact."""
    rewind_steps: int = 64
    """How many steps back the ring of snapshots aims to reach."""
    rewind_bytes: int | None = None
    """Host memory that the ring may take. Left out: a tenth of what is free."""

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
            raise ConfigError(f"resume={self.resume!r} needs a run_name, to know what to continue")
        _ = self.order  # its own checks: the policy, and that a seeded one has a seed

    def _check_choices(self) -> None:
        choices = {
            "resume": (self.resume, get_args(Resume)),
            "amp": (self.amp, (False, True, *get_args(Amp))),
            "scheduler_interval": (self.scheduler_interval, (None, *get_args(SchedulerInterval))),
        }
        for name, (value, known) in choices.items():
            if value not in known:
                told = ", ".join(map(repr, known))
                raise ConfigError(f"{name} is {value!r}; use one of {told}")
        unknown = sorted(set(self.allow_changed) - set(CHANGEABLE))
        if unknown or isinstance(self.allow_changed, str):
            raise ConfigError(
                f"allow_changed is {self.allow_changed!r}; give a tuple of {', '.join(CHANGEABLE)}"
            )

    @property
    def order(self) -> OrderConfig:
        """The part of it that orders the data."""
        return OrderConfig(
            policy=self.data_order_policy,
            seed=self.seed,
            enforce_sampler_state=self.enforce_sampler_state,
        )

    def describe(self) -> dict[str, Any]:
        """As it stands in the header record and in checkpoints."""
        return {**asdict(self), "save_dir": str(self.save_dir)}


def _at_least(name: str, value: Any, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ConfigError(f"{name} must be a whole number of at least {least}, got {value!r}")

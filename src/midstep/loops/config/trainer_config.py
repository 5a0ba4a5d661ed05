"""`TrainerConfig`: how a loop trains, as the group `phase1/trainer` of `conf` fills it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from midstep.core.errors import ConfigError
from midstep.core.field_checks import at_least, bounded_field, is_number, one_of, require, within

if TYPE_CHECKING:
    from midstep.session import SessionConfig

Scheduler = Literal["none", "cosine", "plateau"]
Profile = Literal["none", "steps"]
AmpName = Literal["off", "auto", "bf16", "fp16"]
MAX_EPOCHS = 1_000_000
MAX_SEED = 2**53 - 1
"""The largest whole number that every JSON reader keeps exactly: they use float64."""


@dataclass(frozen=True, kw_only=True)
class TrainerConfig:
    """Settings of the training itself.

    >>> TrainerConfig(epochs=3).lr
    0.001
    """

    epochs: int = bounded_field(10, minimum=1, maximum=MAX_EPOCHS)
    """Passes over the training data."""
    seed: int = bounded_field(42, minimum=0, maximum=MAX_SEED)
    """Seed of the initial weights, the order of the samples and every draw of the training."""
    lr: float = 1e-3
    """Learning rate of Adam."""
    device: str = "auto"
    """Where to train: auto (a GPU if there is one), cpu, cuda or cuda:N."""
    globals_beta: float = bounded_field(1.0, minimum=0)
    """Weight of the error of an event's globals in the loss."""
    amp: AmpName = "off"
    """Automatic mixed precision. auto: fp16 on a GPU, else bf16."""
    grad_clip_norm: float | None = None
    """Clip gradients to this total norm."""
    accumulate_steps: int = bounded_field(1, minimum=1)
    """Batches per optimizer step."""
    scheduler: Scheduler = "none"
    """Schedule of the learning rate. cosine: to 0 at the end; plateau: a tenth when it is stuck."""
    profile: Profile = "none"
    """steps: record a trace of a few steps with the profiler of torch."""

    def __post_init__(self) -> None:
        require(
            within("epochs", self.epochs, 1, MAX_EPOCHS, kind="a whole number"),
            within("seed", self.seed, 0, MAX_SEED, kind="a whole number"),
            at_least("accumulate_steps", self.accumulate_steps, 1),
            one_of("amp", self.amp, get_args(AmpName)),
            one_of("scheduler", self.scheduler, get_args(Scheduler)),
            one_of("profile", self.profile, get_args(Profile)),
            _above_zero("lr", self.lr),
            None
            if self.grad_clip_norm is None
            else _above_zero("grad_clip_norm", self.grad_clip_norm),
        )
        if not (is_number(self.globals_beta) and self.globals_beta >= 0):
            raise ConfigError(
                f"globals_beta must be a number of at least 0, got {self.globals_beta!r}"
            )

    @property
    def session_amp(self) -> bool | Literal["bf16", "fp16"]:
        """The setting as `SessionConfig.amp` takes it."""
        if self.amp == "off":
            return False
        return True if self.amp == "auto" else self.amp

    def session_config(self, **more: Any) -> SessionConfig:
        """The settings of a session that trains this way; `more` says where, and how it resumes."""
        from midstep.session import SessionConfig

        return SessionConfig(
            seed=self.seed,
            device=choose_device(self.device),
            amp=self.session_amp,
            grad_clip_norm=self.grad_clip_norm,
            accumulate_steps=self.accumulate_steps,
            scheduler_interval="step" if self.scheduler == "cosine" else None,
            data_order_policy="epoch_reseed",
            do_test_after=True,
            **more,
        )


def choose_device(name: str) -> str:
    """The device of that name; `auto` is a GPU if there is one.

    Raises:
        ConfigError: torch does not know the device, or this machine does not have it.
    """
    import torch

    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ConfigError(
            f"unknown device phase1.trainer.device={name}; use auto, cpu, cuda or cuda:N"
        ) from error
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ConfigError(
            f"phase1.trainer.device={name}: this machine has {torch.cuda.device_count()} GPUs; "
            "use auto or cpu"
        )
    return name


def _above_zero(name: str, value: Any) -> str | None:
    return None if is_number(value) and value > 0 else f"{name} must be above 0, got {value!r}"

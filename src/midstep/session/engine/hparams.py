"""Hyperparameters changed in a running training: which, to what, and what they were."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch

from midstep.core.errors import ConfigError

__all__ = ["HparamsPayload", "set_hparams"]

_FACTORS = {"lr_mul": "lr", "wd_mul": "weight_decay"}


@dataclass(frozen=True, kw_only=True)
class HparamsPayload:
    """What to set in every group of the optimizer; what is left out stays.

    >>> HparamsPayload(lr_mul=0.1).lr_mul
    0.1
    """

    lr: float | None = None
    """The learning rate; a scheduler goes on from it in proportion."""
    weight_decay: float | None = None
    lr_mul: float | None = None
    """Multiplies the learning rate of each group."""
    wd_mul: float | None = None
    """Multiplies the weight decay of each group."""
    momentum: float | None = None
    betas: tuple[float, float] | None = None
    """Of Adam and its kin."""
    eps: float | None = None

    def __post_init__(self) -> None:
        given = {name: value for name, value in vars(self).items() if value is not None}
        if not given:
            raise ConfigError(f"set_hparams needs one of {', '.join(vars(self))}")
        for name, value in given.items():
            if name != "betas":
                _check(name, value)
        for name, target in _FACTORS.items():
            if name in given and target in given:
                raise ConfigError(f"give {target} or {name}, not both")
        if self.betas is not None:
            self._check_betas()

    def _check_betas(self) -> None:
        betas: Any = self.betas
        if not isinstance(betas, list | tuple) or len(betas) != 2:
            raise ConfigError(f"betas must be two numbers, got {betas!r}")
        for value in betas:
            _check("betas", value)
            if value >= 1:
                raise ConfigError(f"betas must be below 1, got {betas!r}")
        object.__setattr__(self, "betas", tuple(betas))


def _check(name: str, value: Any) -> None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value) or value < 0:
        raise ConfigError(f"{name} must be a finite number of at least 0, got {value!r}")


def set_hparams(
    optimizer: torch.optim.Optimizer, scheduler: Any, payload: HparamsPayload
) -> dict[str, list[Any]]:
    """Set them in every group; gives back the old values of what changed, one per group.

    Raises:
        ConfigError: the optimizer has no such setting; nothing is changed then.
    """
    wanted = _by_group(optimizer, payload)
    old = {name: [_plain(group[name]) for group in optimizer.param_groups] for name in wanted}
    for name, values in wanted.items():
        for group, value in zip(optimizer.param_groups, values, strict=True):
            if isinstance(group[name], torch.Tensor):
                group[name].fill_(value)
            else:
                group[name] = value
    if "lr" in wanted:
        _tell_scheduler(optimizer, scheduler, old["lr"], wanted["lr"])
    return old


def _by_group(optimizer: torch.optim.Optimizer, payload: HparamsPayload) -> dict[str, list[Any]]:
    wanted: dict[str, list[Any]] = {}
    for name, value in vars(payload).items():
        if value is None:
            continue
        target = _FACTORS.get(name, name)
        missing = [group for group in optimizer.param_groups if target not in group]
        if missing:
            kind = type(optimizer).__name__
            raise ConfigError(f"{kind} has no {target}; it has {', '.join(optimizer.defaults)}")
        factor = name in _FACTORS
        wanted[target] = [
            _plain(group[target]) * value if factor else value for group in optimizer.param_groups
        ]
    return wanted


def _tell_scheduler(
    optimizer: torch.optim.Optimizer, scheduler: Any, old: list[Any], new: list[Any]
) -> None:
    """Scale what a scheduler computes its rates from, so that it does not undo the change."""
    for each in [scheduler, *getattr(scheduler, "_schedulers", ())]:
        bases = getattr(each, "base_lrs", None)
        if bases is not None and len(bases) == len(old):
            each.base_lrs = [
                base * now / before if before else base
                for base, before, now in zip(bases, old, new, strict=True)
            ]
    for group, before, now in zip(optimizer.param_groups, old, new, strict=True):
        for name in ("initial_lr", "max_lr", "min_lr"):
            if name in group and before:
                group[name] = group[name] * now / before


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, torch.Tensor) else value

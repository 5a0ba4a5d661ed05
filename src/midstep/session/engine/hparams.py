"""Set hyperparameters of a running training, in the optimizer's groups and in the scheduler."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch

from midstep.core.commands.catalog import HPARAM_FACTORS, HparamsPayload
from midstep.core.errors import ConfigError


def set_hparams(
    optimizer: torch.optim.Optimizer, scheduler: Any, payload: HparamsPayload
) -> dict[str, list[Any]]:
    """Set hyperparameters in every group; returns the old values, one per group.

    Raises:
        ConfigError: the optimizer has no such setting; then nothing is changed.
    """
    return set_values(optimizer, scheduler, _by_group(optimizer, payload))


def set_values(
    optimizer: torch.optim.Optimizer, scheduler: Any, new: Mapping[str, Sequence[Any]]
) -> dict[str, list[Any]]:
    """Set values by name, one per group, all of which the optimizer has; returns the old ones."""
    old = hparam_values(optimizer, new)
    for name, values in new.items():
        for group, value in zip(optimizer.param_groups, values, strict=True):
            if isinstance(group[name], torch.Tensor):  # a compiled or capturable optimizer has it
                group[name].fill_(value)
            else:
                # Facts have lists where a setting such as `betas` is a tuple.
                group[name] = tuple(value) if isinstance(group[name], tuple) else value
    if "lr" in new:
        _scale_scheduler(optimizer, scheduler, old["lr"], new["lr"])
    return old


def _by_group(optimizer: torch.optim.Optimizer, payload: HparamsPayload) -> dict[str, list[Any]]:
    values: dict[str, list[Any]] = {}
    for name, value in vars(payload).items():
        if value is None:
            continue
        target = HPARAM_FACTORS.get(name, name)
        missing = [group for group in optimizer.param_groups if target not in group]
        if missing:
            kind = type(optimizer).__name__
            raise ConfigError(f"{kind} has no {target}; it has {', '.join(optimizer.defaults)}")
        is_factor = name in HPARAM_FACTORS
        values[target] = [
            _plain(group[target]) * value if is_factor else value
            for group in optimizer.param_groups
        ]
    return values


def _scale_scheduler(
    optimizer: torch.optim.Optimizer, scheduler: Any, old: Sequence[Any], new: Sequence[Any]
) -> None:
    """Scale what the scheduler computes its rates from: else its next step undoes the change."""
    # SequentialLR and ChainedScheduler have further schedulers inside.
    for each in [scheduler, *getattr(scheduler, "_schedulers", ())]:
        bases = getattr(each, "base_lrs", None)
        if bases is not None and len(bases) == len(old):
            each.base_lrs = [
                base * now / before if before else base
                for base, before, now in zip(bases, old, new, strict=True)
            ]
    # Schedulers also store rates in the groups: `initial_lr` all, the others OneCycleLR.
    for group, before, now in zip(optimizer.param_groups, old, new, strict=True):
        for name in ("initial_lr", "max_lr", "min_lr"):
            if name in group and before:
                group[name] = group[name] * now / before


def hparam_values(optimizer: torch.optim.Optimizer, names: Iterable[str]) -> dict[str, list[Any]]:
    """The present values by name, one per group, as plain numbers."""
    return {name: [_plain(group[name]) for group in optimizer.param_groups] for name in names}


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, torch.Tensor) else value

"""Set hyperparameters of a running training, in the optimizers' groups and in the scheduler.

A setting of the first optimizer goes by its own name, one of another optimizer by `lr.NAME`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from midstep.core.commands.catalog import ALL_OPTIMIZERS, HPARAM_FACTORS, HparamsPayload
from midstep.core.errors import ConfigError

if TYPE_CHECKING:
    from midstep.session.state.training_parts import TrainingParts


def set_hparams(parts: TrainingParts, payload: HparamsPayload) -> dict[str, list[Any]]:
    """Set hyperparameters in every group; returns the old values by name, one per group.

    Raises:
        ConfigError: an optimizer has no such setting, or several have it and none was named; then
            nothing is changed.
    """
    new: dict[str, list[Any]] = {}
    for name, value in vars(payload).items():
        if value is None or name == "optimizer":
            continue
        is_factor = name in HPARAM_FACTORS
        setting = HPARAM_FACTORS.get(name, name)
        for which in _chosen(parts, name, payload.optimizer, is_factor=is_factor):
            groups = _groups(parts.optimizers[which], setting)
            new[_qualified(parts, which, setting)] = [
                _plain(group[setting]) * value if is_factor else value for group in groups
            ]
    return set_values(parts, new)


def _chosen(
    parts: TrainingParts, name: str, given: str | None, *, is_factor: bool
) -> Sequence[int]:
    """The indices of the optimizers that a setting is for."""
    names = list(parts.optimizer_names)
    if given in names:
        return [names.index(given)]
    known = ", ".join(f'optimizer="{each}"' for each in names)
    if given is not None and given != ALL_OPTIMIZERS:
        raise ConfigError(f'there is no optimizer {given!r}; give {known}, or optimizer="all"')
    if given is None and len(names) > 1 and not is_factor:
        raise ConfigError(
            f'this run has {len(names)} optimizers, so {name} needs {known}, or optimizer="all"'
        )
    return range(len(names))


def _groups(optimizer: torch.optim.Optimizer, setting: str) -> Sequence[Mapping[str, Any]]:
    if any(setting not in group for group in optimizer.param_groups):
        kind = type(optimizer).__name__
        raise ConfigError(f"{kind} has no {setting}; it has {', '.join(optimizer.defaults)}")
    return optimizer.param_groups


def _qualified(parts: TrainingParts, which: int, setting: str) -> str:
    return setting if which == 0 else f"{setting}.{parts.optimizer_names[which]}"


def split_name(parts: TrainingParts, name: str) -> tuple[torch.optim.Optimizer, str]:
    """The optimizer and the setting that a name such as `lr` or `lr.1` stands for.

    Raises:
        ConfigError: there is no such optimizer.
    """
    setting, _, optimizer = name.partition(".")
    names = list(parts.optimizer_names)
    if optimizer and optimizer not in names:
        raise ConfigError(f"there is no optimizer {optimizer!r}; this run has {', '.join(names)}")
    return parts.optimizers[names.index(optimizer) if optimizer else 0], setting


def set_values(parts: TrainingParts, new: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
    """Set values by name, one per group, all of which exist; returns the old ones."""
    old = hparam_values(parts, new)
    for name, values in new.items():
        optimizer, setting = split_name(parts, name)
        for group, value in zip(optimizer.param_groups, values, strict=True):
            if isinstance(group[setting], torch.Tensor):  # a compiled or capturable optimizer
                group[setting].fill_(value)
            else:
                # Facts have lists where a setting such as `betas` is a tuple.
                group[setting] = tuple(value) if isinstance(group[setting], tuple) else value
        if setting == "lr":
            _scale_scheduler(optimizer, _scheduler_of(parts, optimizer), old[name], values)
    return old


def _scheduler_of(parts: TrainingParts, optimizer: torch.optim.Optimizer) -> Any:
    """The declared scheduler, if it is that of this optimizer."""
    is_other = getattr(parts.scheduler, "optimizer", optimizer) is not optimizer
    return None if is_other and len(parts.optimizers) > 1 else parts.scheduler


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


def hparam_values(parts: TrainingParts, names: Iterable[str]) -> dict[str, list[Any]]:
    """The present values by name, one per group, as plain numbers."""
    values: dict[str, list[Any]] = {}
    for name in names:
        optimizer, setting = split_name(parts, name)
        values[name] = [_plain(group[setting]) for group in optimizer.param_groups]
    return values


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, torch.Tensor) else value


class ReadBack:
    """Reads changed hyperparameters back when the next step uses them.

    A loop that computes its own learning rate sets it before each step, so a change of ours has no
    effect. That is found only here.

    Args:
        parts: whose optimizers are read.
        overridden: called with the values that were set, and those that the loop set instead.
    """

    def __init__(
        self, parts: TrainingParts, overridden: Callable[[dict[str, Any], dict[str, Any]], object]
    ) -> None:
        self._parts, self._overridden = parts, overridden
        self._handles: list[Any] = []

    def expect(self, names: Iterable[str], is_current: Callable[[], bool]) -> None:
        """Compare these settings at the next step of their optimizer.

        Args:
            names: settings that were changed.
            is_current: whether the run is still on the way on which they were changed.
        """
        self.forget()
        set_now = hparam_values(self._parts, names)
        for optimizer in dict.fromkeys(split_name(self._parts, name)[0] for name in set_now):
            expected = {
                name: values
                for name, values in set_now.items()
                if split_name(self._parts, name)[0] is optimizer
            }
            self._watch(optimizer, expected, is_current)

    def _watch(
        self,
        optimizer: torch.optim.Optimizer,
        expected: dict[str, Any],
        is_current: Callable[[], bool],
    ) -> None:
        waits = [True]

        # It stays until the next change: a hook must not remove itself while torch iterates them.
        def compare(*_: object) -> None:
            if not waits:
                return
            waits.clear()
            used = hparam_values(self._parts, expected)
            if used != expected and is_current():
                changed = [name for name in expected if used[name] != expected[name]]
                self._overridden(
                    {name: expected[name] for name in changed},
                    {name: used[name] for name in changed},
                )

        self._handles.append(optimizer.register_step_pre_hook(compare))

    def forget(self) -> None:
        """Compare nothing more."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

"""All hooks of one run: put on the model and the optimizer only for steps that show their data."""

from __future__ import annotations

import statistics
import time
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any

from midstep.core.errors import ConfigError
from midstep.session.hooks.hook import Hook
from midstep.session.hooks.installed_hook import InstalledHook
from midstep.session.hooks.rule_probe import RuleProbe
from midstep.session.metrics.step_norms import parameter_ids

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import nn
    from torch.optim import Optimizer
    from torch.utils.hooks import RemovableHandle

    from midstep.control import DebugController

SHARE = 0.05
"""Hooks that take less than this share of a step run in every step while a row is watched."""
HISTORY = 16


class HookBudget:
    """Compares the time that hooks take with the time of a step without them.

    Medians are used, because a step may include a pause.

    >>> budget = HookBudget()
    >>> for now in (0.0, 1.0, 2.0):
    ...     budget.step_begins(now)
    ...     budget.spend(0.5)
    >>> budget.is_kept
    False
    """

    def __init__(self) -> None:
        self._steps: deque[float] = deque(maxlen=HISTORY)
        self._costs: deque[float] = deque(maxlen=HISTORY)
        self._began: float | None = None
        self._spent = 0.0
        self.is_kept = True
        """Whether the hooks took less than their share so far."""

    def spend(self, seconds: float) -> None:
        """Add time that hooks took in the step in progress."""
        self._spent += seconds

    def step_begins(self, now: float) -> None:
        """End the last step and begin the next at `now`."""
        if self._began is not None:
            self._steps.append(max(0.0, now - self._began - self._spent))
        # Steps without hooks are left out: they would pull the median of the costs to zero.
        if self._spent:
            self._costs.append(self._spent)
        self._began, self._spent = now, 0.0
        if self._steps and self._costs:
            allowed = SHARE * statistics.median(self._steps)
            self.is_kept = statistics.median(self._costs) <= allowed


class HookManager:
    """Puts each hook on a model for the steps that show its data, and measures what rules need.

    In other steps neither the model nor an optimizer has hooks.

    Args:
        controller: knows which steps are shown, and takes the data of the hooks.
        model: the module in training.
        optimizer: gradients and updates are read around its step; give all of them if there are
            several, since what another one changes is unknown.
        report_failure: gets key and reason of a hook that raised and was switched off.
    """

    def __init__(
        self,
        controller: DebugController,
        model: nn.Module,
        optimizer: Optimizer | Sequence[Optimizer],
        report_failure: Callable[[str, str], None],
    ) -> None:
        self._controller, self.model = controller, model
        several = isinstance(optimizer, list | tuple)
        self._optimizers: tuple[Optimizer, ...] = tuple(optimizer) if several else (optimizer,)  # type: ignore[arg-type, assignment]
        self._report_failure = report_failure
        self._budget = HookBudget()
        self._installed: tuple[InstalledHook, ...] = (self._make_rule_probe(),)
        self._active: tuple[InstalledHook, ...] = ()
        """Those that take part in the step in progress."""
        self._handles: list[RemovableHandle] = []
        """Two hooks on each optimizer, while any hook is active."""
        self._unsubscribe = controller.sinks.on_step_begin(self._begin_step)
        self._unsubscribe_end: Callable[[], None] = lambda: None
        if len(self._optimizers) > 1:
            # Which of them steps last is known only when the step has ended.
            self._unsubscribe_end = controller.sinks.on_step_end(self._deliver)

    @property
    def hooks(self) -> list[Hook]:
        """The hooks that are shown."""
        return [each.hook for each in self._installed if not isinstance(each.hook, RuleProbe)]

    def add(self, hook: Hook) -> None:
        """Show the data of `hook`; a hook with the same key is replaced."""
        if not isinstance(hook, Hook):
            raise ConfigError(f"show takes hooks (midstep.Hook), got {type(hook).__name__}")
        if not hook.key:
            raise ConfigError(
                f"{type(hook).__name__} has no key; set `key` to the name of its step data"
            )
        list(hook.modules(self.model))  # raises now, not in a step, if a module does not exist
        self.remove(hook.key)
        installed = InstalledHook(
            hook,
            is_wanted=partial(self._is_wanted, hook.key),
            deliver=self._push,
            report_failure=self._report_failure,
            spend=self._budget.spend,
        )
        self._installed = (*self._installed, installed)
        self._controller.captures.data.offer(hook.key, hook.panel)

    def remove(self, key: str) -> None:
        """Stop showing the hook of that key, and remove it from the model."""
        self._controller.captures.data.withdraw(key)
        for each in self._installed:
            if each.hook.key == key:
                each.take_off()
        self._installed = tuple(each for each in self._installed if each.hook.key != key)
        self._active = tuple(each for each in self._active if each.hook.key != key)

    def close(self) -> None:
        """Remove all hooks; a second call changes nothing."""
        self._unsubscribe()
        self._unsubscribe_end()
        for each in self._installed:
            each.take_off()
        self._installed = self._active = ()
        self._hook_optimizer()

    def _make_rule_probe(self) -> InstalledHook:
        control = self._controller
        return InstalledHook(
            RuleProbe(lambda: control.breakpoints.measures_due, self._held_parameters),
            is_wanted=lambda: bool(control.breakpoints.measures_due) and not control.is_parked,
            deliver=lambda _hook, report: control.breakpoints.report_layers(report),
            report_failure=self._report_failure,
        )

    def _is_wanted(self, key: str) -> bool:
        """Whether the hook of this key runs now: in steps that show its data.

        While a row is watched, also in other steps, as long as all hooks keep their budget: each
        point holds metrics from the step data. Not while the run is parked: steps that run then
        only repeat earlier ones.
        """
        control = self._controller
        if not control.captures.wants(key) or control.is_parked:
            return False
        return self._budget.is_kept or control.captures.shows(key)

    def _push(self, hook: Hook, data: Any) -> None:
        """Push to the step data, unless the loop itself has pushed an entry with this key."""
        if hook.key not in self._controller.list_step_data_keys():
            self._controller.capture_step_data(hook.key, data, panel=hook.panel)

    def _begin_step(self) -> None:
        if len(self._installed) > 1:  # more than the probe of the rules
            if self._controller.captures.wants_data:
                self._budget.step_begins(time.perf_counter())
        elif not (self._handles or self._controller.breakpoints.measures_due):
            return  # no rule is due, and the last step left nothing to remove
        self._active = tuple(each for each in self._installed if each.begin(self.model))
        self._hook_optimizer()

    def _held_parameters(self) -> frozenset[int]:
        return frozenset().union(*map(parameter_ids, self._optimizers))

    def _hook_optimizer(self) -> None:
        """Put two hooks on each optimizer if any hook is active, else remove them."""
        # Called between two steps, never inside `optimizer.step`, which iterates over its hooks.
        if self._active and not self._handles:
            for each in self._optimizers:
                self._handles += [
                    each.register_step_pre_hook(self._before_optimizer_step),
                    each.register_step_post_hook(self._after_optimizer_step),
                ]
        elif self._handles and not self._active:
            for handle in self._handles:
                handle.remove()
            self._handles = []

    def _before_optimizer_step(self, optimizer: Optimizer, *_: Any) -> None:
        held = parameter_ids(optimizer)
        for each in self._active:
            each.before(self.model, held)

    def _after_optimizer_step(self, *_: Any) -> None:
        for each in self._active:
            each.after_one(self.model)
        if len(self._optimizers) == 1:
            self._deliver()

    def _deliver(self) -> None:
        for each in self._active:
            each.after(self.model)

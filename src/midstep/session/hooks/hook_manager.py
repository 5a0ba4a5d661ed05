"""All hooks of one run: they listen to the optimizer and, while wanted, to the modules."""

from __future__ import annotations

import statistics
import time
from collections import deque
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from midstep.core.errors import ConfigError
from midstep.session.hooks.hook import Hook
from midstep.session.hooks.installed_hook import InstalledHook
from midstep.session.hooks.rule_probe import RuleProbe

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import nn
    from torch.optim import Optimizer

    from midstep.control import DebugController


SHARE = 0.05
"""Hooks that take less of a step than this run in every step while somebody watches."""
REMEMBERED = 16


class HookBudget:
    """Compares what hooks took with what steps take without them. Medians: a pause is no step.

    >>> budget = HookBudget()
    >>> for now in (0.0, 1.0, 2.0):
    ...     budget.step_begins(now)
    ...     budget.spend(0.5)
    >>> budget.is_kept
    False
    """

    def __init__(self) -> None:
        self._steps: deque[float] = deque(maxlen=REMEMBERED)
        self._costs: deque[float] = deque(maxlen=REMEMBERED)
        self._began: float | None = None
        self._spent = 0.0
        self.is_kept = True
        """Whether hooks have been cheap so far."""

    def spend(self, seconds: float) -> None:
        """Hooks took this long in the step in progress."""
        self._spent += seconds

    def step_begins(self, now: float) -> None:
        """The last step is over."""
        if self._began is not None:
            self._steps.append(max(0.0, now - self._began - self._spent))
        if self._spent:
            self._costs.append(self._spent)
        self._began, self._spent = now, 0.0
        if self._steps and self._costs:
            allowed = SHARE * statistics.median(self._steps)
            self.is_kept = statistics.median(self._costs) <= allowed


class HookManager:
    """Puts hooks on a model for the steps that somebody wants to see, and measures for rules.

    Between such steps the model carries nothing of ours, and the optimizer two calls that test a
    flag. With several optimizers give the one whose step ends a training step.

    Args:
        controller: says who wants what, and takes what hooks give.
        model: the module in training.
        optimizer: its step is the moment when gradients and updates are read.
        tell: takes name and reason of a hook that was switched off.
    """

    def __init__(
        self,
        controller: DebugController,
        model: nn.Module,
        optimizer: Optimizer,
        tell: Callable[[str, str], None],
    ) -> None:
        self._controller, self.model, self._tell = controller, model, tell
        self._slots: tuple[InstalledHook, ...] = ()
        self._begun: tuple[InstalledHook, ...] = ()
        """Those that are there in the step in progress."""
        self._budget = HookBudget()
        self._add_probe()
        with ExitStack() as undo:
            undo.callback(controller.sinks.on_step_begin(self._begin))
            undo.callback(optimizer.register_step_pre_hook(self._before).remove)
            undo.callback(optimizer.register_step_post_hook(self._after).remove)
            self._undo = undo.pop_all()

    @property
    def hooks(self) -> list[Hook]:
        """The hooks that are shown."""
        return [slot.hook for slot in self._slots if not isinstance(slot.hook, RuleProbe)]

    def add(self, hook: Hook) -> None:
        """Show what `hook` gives; one of the same key is replaced."""
        if not isinstance(hook, Hook):
            raise ConfigError(f"show takes hooks (midstep.Hook), got {type(hook).__name__}")
        if not hook.key:
            raise ConfigError(f"{type(hook).__name__} needs a key, the name of its step data")
        list(hook.modules(self.model))  # a name that is not there is said here, not later
        self.remove(hook.key)
        self._slots = (
            *self._slots,
            InstalledHook(
                hook,
                wanted=self._is_wanted,
                deliver=self._push,
                tell=self._tell,
                spend=self._budget.spend,
            ),
        )

    def remove(self, key: str) -> None:
        """Show it no more; the model is left as it was."""
        for slot in self._slots:
            if slot.hook.key == key:
                slot.take_off()
        self._slots = tuple(slot for slot in self._slots if slot.hook.key != key)
        self._begun = tuple(slot for slot in self._begun if slot.hook.key != key)

    def close(self) -> None:
        """Take everything off; closing twice is fine."""
        self._undo.close()
        for slot in self._slots:
            slot.take_off()
        self._slots = self._begun = ()

    def _add_probe(self) -> None:
        control = self._controller
        probe = RuleProbe(lambda: control.breakpoints.measures_due)
        slot = InstalledHook(
            probe,
            wanted=lambda: bool(control.breakpoints.measures_due) and not control.is_parked,
            deliver=lambda _hook, report: control.breakpoints.report_layers(report),
            tell=self._tell,
        )
        self._slots = (slot,)

    def _is_wanted(self) -> bool:
        """In every step that is shown; in others too while hooks are cheap.

        Not while it stands: steps that are made there only repeat earlier ones.
        """
        control = self._controller
        if not control.captures.wants_data or control.is_parked:
            return False
        return self._budget.is_kept or control.captures.shows_step

    def _push(self, hook: Hook, data: Any) -> None:
        """Into the step data, unless the loop itself has pushed something of that name."""
        if hook.key not in self._controller.list_step_data_keys():
            self._controller.capture_step_data(hook.key, data, panel=hook.panel)

    def _begin(self) -> None:
        if len(self._slots) > 1:  # more than the probe of rules
            if self._controller.captures.wants_data:
                self._budget.step_begins(time.perf_counter())
        elif not (self._begun or self._controller.breakpoints.measures_due):
            return
        self._begun = tuple(slot for slot in self._slots if slot.begin(self.model))

    def _before(self, *_: Any) -> None:
        if not self._controller.captures.is_observed:
            return  # nobody wants anything; what was put on goes as the next step begins
        for slot in self._begun:
            slot.before(self.model)

    def _after(self, *_: Any) -> None:
        if not self._controller.captures.is_observed:
            return
        for slot in self._begun:
            slot.after(self.model)

"""`ReappliedChanges`: repeats changes of hyperparameters that a resumed state lacks.

A change is acknowledged when its fact is on disk. The checkpoint with it may come later, and a kill
in between must not lose the change. So the resumed run repeats it at the same step.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from midstep.core.errors import ConfigError
from midstep.session.engine.hparams import set_values, split_name

if TYPE_CHECKING:
    from midstep.session.engine.recorded_history import HparamsChange
    from midstep.session.state.training_parts import TrainingParts


class ReappliedChanges:
    """The changes that wait for their step.

    Args:
        parts: whose optimizer and scheduler are changed.
    """

    def __init__(self, parts: TrainingParts) -> None:
        self._parts = parts
        self.pending: list[HparamsChange] = []
        """Oldest first; empty in nearly every run."""

    @property
    def identities(self) -> list[list[int]]:
        """The pending changes as a checkpoint names them."""
        return [list(change.identity) for change in self.pending]

    def load(self, changes: Iterable[HparamsChange]) -> None:
        """Wait for the steps of these changes, and of no others."""
        self.pending = list(changes)

    def forget_after(self, step: int) -> None:
        """The run went back to `step`: later changes belong to the timeline that was left."""
        self.pending = [change for change in self.pending if change.step <= step]

    def supersede(self, names: Iterable[str]) -> None:
        """These settings were changed again, and later: their pending values are void."""
        new_names = set(names)
        left = []
        for change in self.pending:
            new = {name: values for name, values in change.new.items() if name not in new_names}
            if new:
                left.append(change._replace(new=new))
        self.pending = left

    def apply_due(self, step: int) -> Iterable[tuple[HparamsChange, Mapping[str, Any]]]:
        """Repeat the changes of the steps up to `step`; yields each with the old values.

        Raises:
            ConfigError: the optimizer has no such setting or another number of groups.
        """
        while self.pending and self.pending[0].step <= step:
            change = self.pending.pop(0)
            yield change, self._apply(change)

    def _apply(self, change: HparamsChange) -> Mapping[str, Any]:
        for name, values in change.new.items():
            optimizer, setting = split_name(self._parts, name)
            groups = optimizer.param_groups
            if len(values) != len(groups) or any(setting not in group for group in groups):
                raise ConfigError(
                    f"the change of {name} at step {change.step} cannot be repeated: the "
                    f"optimizer has {len(groups)} groups, {len(values)} values were set; resume "
                    "with the optimizer of that time"
                )
        return set_values(self._parts, change.new)

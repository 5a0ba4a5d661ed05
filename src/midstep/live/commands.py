"""The commands that an attached loop offers: checkpoints, hyperparameters, going back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from midstep.control.command_record import StepsToPass
from midstep.core.commands.catalog import (
    BACK,
    LOAD_CHECKPOINT,
    SAVE_CHECKPOINT,
    SET_HPARAMS,
    BackPayload,
    HparamsPayload,
    LoadPayload,
)
from midstep.core.commands.definition import NoPayload
from midstep.core.errors import ControlError
from midstep.core.moments import Moment
from midstep.session.engine.hparams import set_hparams

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch.optim import Optimizer

    from midstep.live.memory import LoopMemory
    from midstep.session import Run

__all__ = ["register_commands"]


def register_commands(
    run: Run,
    memory: LoopMemory | None,
    *,
    optimizer: Optimizer,
    scheduler: Any,
    why_not: str | None,
) -> Callable[[], None]:
    """Register them on the run's controller; return a function that withdraws them.

    Args:
        run: whose controller.
        memory: takes snapshots; None where that is not possible.
        optimizer: the clock.
        scheduler: declared or not.
        why_not: the reason why there is no memory.
    """
    commands = _Commands(run, memory, optimizer, scheduler, why_not)
    withdraw = run.controller.queue.register_all(
        {
            SAVE_CHECKPOINT: commands.save,
            LOAD_CHECKPOINT: commands.load,
            SET_HPARAMS: commands.set,
            BACK: commands.back,
        }
    )
    run.controller.status.offer_rewind(None if memory is None else memory.describe)

    def undo() -> None:
        withdraw()
        run.controller.status.offer_rewind(None)

    return undo


class _Commands:
    """What they do; all on the training thread, at a boundary."""

    def __init__(
        self,
        run: Run,
        memory: LoopMemory | None,
        optimizer: Optimizer,
        scheduler: Any,
        why_not: str | None,
    ) -> None:
        self._run, self._found, self._why_not = run, memory, why_not
        self._optimizer, self._scheduler = optimizer, scheduler

    @property
    def _memory(self) -> LoopMemory:
        if self._found is None:
            raise ControlError(f"this loop has no snapshots: {self._why_not}")
        return self._found

    def save(self, _payload: NoPayload) -> dict[str, Any]:
        return self._memory.save()

    def load(self, payload: LoadPayload) -> dict[str, Any]:
        return self._memory.load(payload.step, payload.timeline)

    def back(self, payload: BackPayload) -> Any:
        step = payload.target(self._run.step)
        repeat = self._memory.back(step)
        return StepsToPass(1) if repeat else {"step": step}

    def set(self, payload: HparamsPayload) -> dict[str, Any]:
        old = set_hparams(self._optimizer, self._scheduler, payload)
        groups = self._optimizer.param_groups
        new = {name: [group[name] for group in groups] for name in old}
        who = self._run.controller.queue.asked_by or "python"
        self._run.event(
            Moment.INTERVENTION, who=who, kind="hparams", old=old, new=new, step=self._run.step
        )
        if new.get("lr"):
            self._run.controller.status.describe(lr=float(new["lr"][0]))
        if self._found is not None:
            self._found.changed(old, new)
        return {"old": old}

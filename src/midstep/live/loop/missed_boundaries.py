"""`MissedBoundaries`: notices a loop whose boundaries are missed, or come at a wrong moment.

A boundary is the loader's next batch after an optimizer step. That is wrong for a loop which takes
its batches from elsewhere, and for one which fetches its next batch before the backward pass of
this one: a state that is restored there would not fit the graph that the loop still holds.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn
    from torch.optim import Optimizer

    from midstep.data.order.ordered_loader import OrderedLoader
    from midstep.data.order.step_order import StepOrder
    from midstep.session.engine.training_engine import TrainingEngine

log = logging.getLogger("midstep.live")
CONSEQUENCE = "until then there is no going back, and no checkpoint is taken"
NO_LOADER = (
    "two optimizer steps were made without a boundary, so each optimizer step counts as a step: "
    f"loop over `for step in run.steps(n)`, or call `run.step_end()` after each step; {CONSEQUENCE}"
)
OTHER_BATCHES = (
    "two optimizer steps were made without a batch from the loader that was given to attach (an "
    "iterator older than attach, a list of batches, another loader), so each optimizer step counts "
    "as a step: call iter(loader) after attach, or loop over `for step in run.steps(n)`; "
    f"{CONSEQUENCE}"
)
UNREAD_LOADER = (
    "the loop reads no batch from the loader that was given to attach, whose position is then "
    "unknown (an iterator older than attach, or another loader): call iter(loader) after attach, "
    "or leave the loader out; a resume will not be exact, and there is no going back"
)
AHEAD = (
    "the loop fetches its next batch before the backward pass of this one, so the next batch is "
    "not a boundary between two steps: fetch it at the head of the loop, or loop over `for step in "
    "run.steps(n)`; a resume will not be exact, and there is no going back"
)
BATCH_BEFORE = (
    "run.batch was called before the iteration that trains on the batch, so no saved state has "
    "the batch: call run.batch at the head of the iteration; a resume will not be exact, and there "
    "is no going back"
)


class BackRefusals:
    """Reports once that boundaries are at a wrong moment, and refuses what would break there."""

    def __init__(self) -> None:
        self.engine: TrainingEngine | None = None
        """Goes back and takes checkpoints; None if the training cannot be saved."""
        self.report: Callable[[str], object] = log.warning
        """Prints it and writes the fact."""
        self._reported: set[str] = set()

    def refuse(self, reason: str, *, keep_checkpoints: bool = True) -> None:
        """Refuse going back from now on, and checkpoints unless `keep_checkpoints`."""
        if reason in self._reported:
            return
        self._reported.add(reason)
        self.report(reason)
        if self.engine is not None:
            self.engine.rewind.ring.clear(reason)
            if not keep_checkpoints:
                self.engine.take_no_checkpoints(reason)

    def check_iteration(
        self, order: OrderedLoader | StepOrder | None, *, batch_came_first: bool
    ) -> None:
        """Refuse what an iteration of `run.steps` cannot repeat: its batch is in no saved state.

        Args:
            order: of the loader that was given to attach; None without one.
            batch_came_first: whether `run.batch` was called before the iteration.
        """
        if batch_came_first:
            self.refuse(BATCH_BEFORE)
        if order is not None and order.passes == 0:
            self.refuse(UNREAD_LOADER)


class StepCalls:
    """Calls a function before each call of `optimizer.step`, as the only boundary of a loop.

    A hook of the optimizer would not do: at a boundary others add and remove such hooks, which
    torch does not allow while it calls them.

    Args:
        optimizer: whose `step` is replaced, on this object alone.
        before: called before each step.
    """

    def __init__(self, optimizer: Optimizer, before: Callable[[], object]) -> None:
        self._optimizer = optimizer
        self._own = vars(optimizer).get("step")  # such as that of a scheduler
        step: Callable[..., Any] = optimizer.step

        @functools.wraps(step)
        def call(*args: Any, **kwargs: Any) -> Any:
            before()
            return step(*args, **kwargs)

        self._call = call
        setattr(optimizer, "step", call)  # noqa: B010 - a method, to mypy

    def close(self) -> None:
        """Put the optimizer's own `step` back, unless somebody has replaced ours."""
        if vars(self._optimizer).get("step") is not self._call:
            return
        if self._own is None:
            delattr(self._optimizer, "step")
        else:
            setattr(self._optimizer, "step", self._own)  # noqa: B010 - as above


class MissedBoundaries:
    """Watches the first steps of a loop for batches that are fetched ahead.

    It costs nothing later on: a hook on the model is installed only if the first step takes a
    second batch, and is removed at the first boundary.

    Args:
        model: its forward pass with gradients is noted.
        refusals: refuses going back if the loop fetches batches ahead.
    """

    def __init__(self, model: nn.Module, refusals: BackRefusals) -> None:
        self._model, self._refusals = model, refusals
        self.is_first = True
        """Whether no boundary was met yet."""
        self._handle: Any = None
        self._has_forward = False
        self.is_ahead = False
        """Whether the loop fetches batches ahead."""
        self._next: Any = None

    def second_batch(self) -> None:
        """A second batch was requested before the optimizer stepped."""
        if self.is_first and self._handle is None:
            self._handle = self._model.register_forward_hook(self._note)

    def _note(self, *_: object) -> None:
        self._has_forward = True

    def step_made(self) -> None:
        """The optimizer stepped: a forward pass from here on belongs to the next step."""
        self._has_forward = False

    def boundary_met(self) -> bool:
        """A batch was requested after an optimizer step; True if the loop fetches batches ahead."""
        self.is_first = False
        if self._handle is not None:
            self.is_ahead = self._has_forward
            self.close()
        if self.is_ahead:
            self._refusals.refuse(AHEAD)
        return self.is_ahead

    def drop_prefetched(self, batches: list[Any]) -> list[Any]:
        """The batches that the step trained on: its last one was fetched for the next step."""
        before, self._next = self._next, batches[-1] if batches else None
        return [*([] if before is None else [before]), *batches[:-1]]

    def close(self) -> None:
        """Remove the hook."""
        handle, self._handle = self._handle, None
        if handle is not None:
            handle.remove()

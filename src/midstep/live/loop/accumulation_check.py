"""Notices that a loop counts its batches itself, and that a resume or `back` has shifted its count.

With `(i + 1) % 4 == 0 or i + 1 == len(loader)` and `enumerate(loader)` a loop decides by its own
counter when the optimizer steps. After a resume inside an epoch, `i` starts again at 0, so the last
batches of that epoch get no step. Nothing can set that counter, so it is reported.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import nn

WORDS = (
    "the loop steps its optimizer by a batch counter of its own (such as `enumerate`), which a "
    "resume or going back does not set: {}. Count by the run instead: accumulate over `run.step`, "
    "or make a step with the batches that are left after the loop"
)


LEFT_WORDS = (
    "a resume from the end of an epoch will not be exact: the epoch ended with {} that no step "
    "followed, and gradients are in no checkpoint. Make a step with them, or zero them before the "
    "next epoch"
)


class AccumulationCheck:
    """Watches how many micro-batches each step takes, in a pass that was resumed or moved back.

    Also whether gradients are left at the end of an epoch, which the next one would add to.

    Args:
        model: its gradients are looked at.
    """

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self.is_moved = False
        """Whether the running pass was resumed, or a part of it repeated."""
        self.needs_steps = True
        """Whether `step_ended` must be called."""
        self._zeroes_after_step = False
        self._is_first, self._has_reported_left = True, False
        self._usual = 0
        self._short = 0  # micro-batches of the last step, if fewer than usual
        self._has_reported = False

    def begin(self, usual: int) -> None:
        """The running pass continues at another position; its steps took `usual` each."""
        self.is_moved, self.needs_steps, self._short = True, True, 0
        self._usual = max(self._usual, usual)

    def step_ended(self, count: int, report: Callable[[str], object]) -> None:
        """A step took `count` micro-batches; `report` is called once if the counter is shifted."""
        if self._is_first:
            # A loop that zeroes at the begin of a step drops what is left by then.
            self._is_first, self._zeroes_after_step = False, not _has_gradient(self._model)
            self.needs_steps = self.is_moved
        if not self.is_moved:
            return
        if self._short:
            # Only the last step of a pass may be short, and this one follows it.
            self._report(report, f"a step took {self._short} batches in place of {self._usual}")
        self._usual = max(self._usual, count)
        self._short = count if count < self._usual else 0

    def pass_ended(self, left: int, report: Callable[[str], object]) -> None:
        """A pass is over, and `left` batches were followed by no step."""
        if left and self._usual > 1:
            self._report(report, f"the epoch ended with {_batches(left)} that no step followed")
        self.is_moved, self.needs_steps, self._short = False, self._is_first, 0

    def epoch_ended(self, left: int, report: Callable[[str], object]) -> None:
        """The next epoch is requested, and no step followed the last `left` batches."""
        may_add_up = left and self._zeroes_after_step and not self._has_reported_left
        if may_add_up and _has_gradient(self._model):
            self._has_reported_left = True
            report(LEFT_WORDS.format(_batches(left)))

    def _report(self, report: Callable[[str], object], what: str) -> None:
        if not self._has_reported:
            self._has_reported = True
            report(WORDS.format(what))


def _batches(count: int) -> str:
    return "1 batch" if count == 1 else f"{count} batches"


def _has_gradient(model: nn.Module) -> bool:
    """Whether a parameter has a gradient that is not zero."""
    for parameter in model.parameters():
        grad = parameter.grad
        if grad is None:
            continue
        # The part of a sharded gradient that is here: reading the whole would be a collective.
        local = grad.to_local() if hasattr(grad, "to_local") else grad
        if bool(local._nnz() if local.is_sparse else local.count_nonzero()):
            return True
    return False

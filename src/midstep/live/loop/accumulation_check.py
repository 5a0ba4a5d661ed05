"""Notices that a loop counts its batches itself, and that a resume or `back` has shifted its count.

With `(i + 1) % 4 == 0 or i + 1 == len(loader)` and `enumerate(loader)` a loop decides by its own
counter when the optimizer steps. After a resume inside an epoch, `i` starts again at 0, so the last
batches of that epoch get no step. Nothing can set that counter, so it is reported.
"""

from __future__ import annotations

from collections.abc import Callable

WORDS = (
    "the loop steps its optimizer by a batch counter of its own (such as `enumerate`), which a "
    "resume or going back does not set: {}. Count by the run instead: accumulate over `run.step`, "
    "or make a step with the batches that are left after the loop"
)


class AccumulationCheck:
    """Watches how many micro-batches each step takes, in a pass that was resumed or moved back."""

    def __init__(self) -> None:
        self.is_moved = False
        """Whether the running pass was resumed, or a part of it repeated."""
        self._usual = 0
        self._short = 0  # micro-batches of the last step, if fewer than usual
        self._has_reported = False

    def begin(self, usual: int) -> None:
        """The running pass continues elsewhere; its steps took `usual` micro-batches so far."""
        self.is_moved, self._short = True, 0
        self._usual = max(self._usual, usual)

    def step_ended(self, count: int, report: Callable[[str], object]) -> None:
        """A step took `count` micro-batches; `report` is called once if the counter is shifted."""
        if self._short:
            # Only the last step of a pass may be short, and this one follows it.
            self._report(report, f"a step took {self._short} batches in place of {self._usual}")
        self._usual = max(self._usual, count)
        self._short = count if count < self._usual else 0

    def pass_ended(self, left: int, report: Callable[[str], object]) -> None:
        """A pass is over, and `left` batches were followed by no step."""
        if left and self._usual > 1:
            batches = "1 batch" if left == 1 else f"{left} batches"
            self._report(report, f"the epoch ended with {batches} that no step followed")
        self.is_moved, self._short = False, 0

    def _report(self, report: Callable[[str], object], what: str) -> None:
        if not self._has_reported:
            self._has_reported = True
            report(WORDS.format(what))

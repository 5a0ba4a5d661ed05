"""The ring of snapshots that a training can be taken back to: bounded in memory and in time.

Snapshots lie in host memory. The ring never holds more than its bytes, the one being made counted,
and takes one only when enough time has passed for it to be a small share of the training.
"""

from __future__ import annotations

import math
import statistics
import time
from collections import deque
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

from midstep.core.errors import ConfigError
from midstep.session.state.snapshot import Snapshot, bytes_together, share_unchanged

__all__ = ["SnapshotRing", "free_host_bytes"]

OVERHEAD_BYTES = 64 << 10
"""What a snapshot takes beside its tensors: two sets of random states, and its tree."""
_MARGIN = 0.8
"""Of the share that snapshots use; the rest is for looking whether one is due, at each boundary."""
_TIMES = 33
"""Steps whose times are remembered; of these the middle one counts."""


class SnapshotRing:
    """Snapshots of the last steps, as many and as often as memory and time allow.

    Only the training thread changes it; any thread may read and `describe` it.

    Args:
        budget_bytes: the most it may hold; a tenth of the free host memory when left out.
        steps: how far back it aims to reach; 0 keeps nothing.
        share: of the time between two snapshots that taking one may take.
        clock: monotonic seconds.

    >>> ring = SnapshotRing(budget_bytes=1 << 20, steps=8)
    >>> ring.is_due(3), ring.take(lambda: Snapshot.take({}, step=3), 3)
    (True, True)
    >>> ring.nearest(7).step, ring.nearest(2), ring.first_step
    (3, None, 3)
    """

    def __init__(
        self,
        budget_bytes: int | None = None,
        steps: int = 64,
        *,
        share: float = 0.01,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        if steps < 0 or not 0 < share <= 1 or (budget_bytes is not None and budget_bytes < 0):
            raise ConfigError(
                f"a ring needs steps and bytes of at least 0 and a share in (0, 1], got {steps}, "
                f"{budget_bytes} and {share}"
            )
        self.budget_bytes = free_host_bytes() // 10 if budget_bytes is None else budget_bytes
        self.steps = steps
        self._share, self._clock = share, clock
        self._held: tuple[Snapshot, ...] = ()  # by step, rising; replaced as a whole
        self._size_bytes = 0
        self._took_at: float | None = None
        self._last_boundary: tuple[int, float] | None = None
        self._gap = 1
        self.cost_s = 0.0
        """What taking the last one took; it is paid off before the next is taken."""
        self._steps_s: deque[float] = deque(maxlen=_TIMES)
        self.off: str | None = None if steps else "it is switched off by rewind_steps=0"
        """Why nothing is kept; None while it works."""

    # -- filled by the training thread ------------------------------------------------------------

    def is_due(self, step: int) -> bool:
        """Whether a snapshot is to be taken at this boundary. Called once at each boundary.

        Args:
            step: finished optimizer steps.
        """
        if self.off is not None:
            return False
        now = self._clock()
        if self._last_boundary is not None and step == self._last_boundary[0] + 1:
            self._steps_s.append(now - self._last_boundary[1])
        self._last_boundary = (step, now)
        if not self._held or self._took_at is None:
            return True
        is_paid_off = (now - self._took_at) * self._share * _MARGIN >= self.cost_s
        return is_paid_off and step - self._held[-1].step >= self._gap

    def take(
        self, take: Callable[[], Snapshot], step: int, size_bytes: Callable[[], int] | None = None
    ) -> bool:
        """Take the snapshot that is due; True if it fits. Its time does not count as a step's."""
        is_kept = self.keep(take, step, size_bytes)
        self._last_boundary = (step, self._clock())
        return is_kept

    def keep(
        self,
        take: Callable[[], Snapshot],
        step: int,
        size_bytes: Callable[[], int] | None = None,
        *,
        beside: Snapshot | None = None,
    ) -> bool:
        """Take one now if it fits, whatever it costs; the oldest go to make room for it.

        Args:
            take: takes it.
            step: finished optimizer steps; what is held of this step or later ones goes.
            size_bytes: what its tensors would take.
            beside: one that must stay; if both do not fit, none is taken.
        """
        if self.off is not None:
            return False
        began = self._clock()
        expected = (self._size_bytes if size_bytes is None else size_bytes()) + OVERHEAD_BYTES
        if not self._make_room(expected, step, beside):
            return False
        made = take().to_host()
        self._size_bytes = made.bytes
        made = share_unchanged(made, self._held[-1]) if self._held else made
        self._put(made, beside)
        self._gap = self._least_gap()
        self._took_at = self._clock()
        self.cost_s = self._took_at - began
        return bool(self._held) and self._held[-1] is made

    def _make_room(self, expected: int, step: int, beside: Snapshot | None) -> bool:
        """Let the oldest go until so many bytes are free; False where that cannot be."""
        self.forget_from(step)
        fixed = 0 if beside is None else self._bytes_of((beside,))
        if expected + fixed > self.budget_bytes:
            return False
        while self.bytes + expected > self.budget_bytes:
            oldest = next(held for held in self._held if held is not beside)
            self._held = tuple(held for held in self._held if held is not oldest)
        return True

    def _put(self, made: Snapshot, beside: Snapshot | None) -> None:
        held = (*self._held, made)
        while len(held) > 1 and held[0] is not beside and self._is_over(held):
            held = held[1:]
        # What was not foreseen, as a state that grew by more than was said, is not kept at all.
        self._held = held if self._bytes_of(held) <= self.budget_bytes else ()

    def _is_over(self, held: tuple[Snapshot, ...]) -> bool:
        """Whether the oldest is not needed to reach far enough, or has no room."""
        needless = held[1].step <= held[-1].step - self.steps
        return needless or self._bytes_of(held) > self.budget_bytes

    def _least_gap(self) -> int:
        """Steps between two, so that as many as fit reach as far back as is aimed at."""
        fit = self.budget_bytes // max(1, self._size_bytes + OVERHEAD_BYTES)
        return max(1, math.ceil(self.steps / max(1, fit - 1)))

    def forget_from(self, step: int) -> None:
        """What is held of `step` and of later ones is no longer true."""
        self._held = tuple(held for held in self._held if held.step < step)

    def forget_after(self, step: int) -> None:
        """What is held of steps behind `step` is no longer true."""
        self.forget_from(step + 1)

    def clear(self, off: str | None = None) -> None:
        """Hold nothing; with a reason, keep nothing from now on."""
        self._held = ()
        self.off = off or self.off

    # -- read by anybody --------------------------------------------------------------------------

    def nearest(self, step: int) -> Snapshot | None:
        """The last snapshot that is not behind `step`; None if there is none."""
        return next((held for held in reversed(self._held) if held.step <= step), None)

    @property
    def snapshot_steps(self) -> list[int]:
        """The steps of which there is a snapshot, rising."""
        return [held.step for held in self._held]

    @property
    def first_step(self) -> int | None:
        """How far back one can go; None when nowhere."""
        held = self._held
        return held[0].step if held else None

    @property
    def bytes(self) -> int:
        """What it holds now, memory that snapshots share counted once."""
        return self._bytes_of(self._held)

    def replay_cost_s(self, step: int) -> float | None:
        """About how long it takes at most to go back to some step, standing at `step`."""
        held, times = self._held, list(self._steps_s)
        if not held or not times:
            return None
        steps = [each.step for each in held] + [step]
        gap = max(after - before for before, after in pairwise(steps))
        return max(0, gap - 1) * statistics.median(times)

    def describe(self, step: int) -> dict[str, Any]:
        """As the page shows it, standing at `step`."""
        return {
            "first_step": self.first_step,
            "snapshot_steps": self.snapshot_steps,
            "bytes": self.bytes,
            "budget_bytes": self.budget_bytes,
            "replay_cost_s": self.replay_cost_s(step),
        }

    @staticmethod
    def _bytes_of(held: tuple[Snapshot, ...]) -> int:
        return bytes_together(held) + OVERHEAD_BYTES * len(held)


def free_host_bytes() -> int:
    """Memory that could be taken without swapping, as the kernel tells it; 0 if it does not.

    >>> free_host_bytes() >= 0
    True
    """
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        told = dict(line.split(":", 1) for line in lines)
        return int(told["MemAvailable"].split()[0]) << 10
    except (OSError, KeyError, ValueError):
        return _physical_bytes() // 2


def _physical_bytes() -> int:
    """All memory, where only that is told."""
    import os

    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (OSError, ValueError):
        return 0

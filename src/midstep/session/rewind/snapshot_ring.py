"""`SnapshotRing`: the snapshots that a training can go back to, within limits of memory and time.

Snapshots are in host memory. The ring never takes more than its budget in bytes, including the
snapshot being taken. It takes a new one only when enough time has passed that snapshots cost at
most 1 % of the run. A fixed number of steps between them would suit one size of model only.
"""

from __future__ import annotations

import math
import statistics
import time
from collections import deque
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from midstep.core.errors import ConfigError
from midstep.session.state.host_memory import free_host_bytes
from midstep.session.state.large_arrays import BlockSizes, LargeCopies, shared_block_bytes
from midstep.session.state.snapshot import Snapshot, share_unchanged, snapshot_bytes

OVERHEAD_BYTES = 64 << 10
"""Bytes of a snapshot besides its tensors: two sets of random states, and its tree."""
_MARGIN = 0.8
"""Part of the time share for taking snapshots; the rest is for the check at each boundary."""
_TIMES = 33
"""Number of recent steps whose median time estimates how long a repetition takes."""


class SnapshotRing:
    """Snapshots of the last steps, as many and as often as memory and time allow.

    Only the training thread changes it; any thread may read and `describe` it.

    Args:
        budget_bytes: upper limit of its size; a tenth of the free host memory if left out.
        steps: how far back it aims to reach; 0 switches it off.
        share: part of the time between two snapshots that taking one may cost.
        sizes: of large arrays and their blocks.
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
        sizes: BlockSizes | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        if steps < 0 or not 0 < share <= 1 or (budget_bytes is not None and budget_bytes < 0):
            raise ConfigError(
                f"a ring needs steps and bytes of at least 0 and a share in (0, 1], got {steps}, "
                f"{budget_bytes} and {share}"
            )
        self.budget_bytes = free_host_bytes() // 10 if budget_bytes is None else budget_bytes
        self.steps = steps
        self._share, self._clock, self._sizes = share, clock, sizes
        # In ascending order of steps. The tuple is replaced as a whole, never changed, so that
        # other threads read it without a lock.
        self._held: tuple[Snapshot, ...] = ()
        self._size_bytes = 0
        self._shared_bytes = 0
        self._took_at: float | None = None
        self._last_boundary: tuple[int, float] | None = None
        self._gap = 1
        self.cost_s = 0.0
        """Seconds that taking the last snapshot cost; decides when the next one is due."""
        self._steps_s: deque[float] = deque(maxlen=_TIMES)
        self.off: str | None = None if steps else "it is switched off by rewind_steps=0"
        """Why the ring is off, in words; None while it works."""

    # -- filled by the training thread ------------------------------------------------------------

    def is_due(self, step: int) -> bool:
        """Whether a snapshot is to be taken at this boundary. Called once at each boundary.

        Args:
            step: finished optimizer steps.
        """
        if self.off is not None:
            return False
        now = self._clock()
        # Only between neighbouring steps: a rewind in between would give a wrong time.
        if self._last_boundary is not None and step == self._last_boundary[0] + 1:
            self._steps_s.append(now - self._last_boundary[1])
        self._last_boundary = (step, now)
        if not self._held or self._took_at is None:
            return True
        # Time first: at most boundaries this comparison is nearly all that the ring costs.
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
        """Take a snapshot now if it fits, whatever time it costs; older ones make room for it.

        Args:
            take: takes it.
            step: finished optimizer steps; snapshots of this step or later ones are dropped.
            size_bytes: bytes that it would take beyond blocks of large arrays that are held.
            beside: a snapshot that must be kept; if both do not fit, none is taken.
        """
        if self.off is not None:
            return False
        began = self._clock()
        expected = (self._size_bytes if size_bytes is None else size_bytes()) + OVERHEAD_BYTES
        # Before the clone exists: else the ring would exceed its budget for a moment.
        if not self._make_room(expected, step, beside):
            return False
        snapshot = take().to_host()
        self._size_bytes = snapshot.bytes
        self._shared_bytes = 0
        if self._held:
            snapshot = share_unchanged(snapshot, self._held[-1])
            self._shared_bytes = shared_block_bytes(snapshot.large, self._held[-1].large)
        self._append(snapshot, beside)
        self._gap = self._least_gap()
        self._took_at = self._clock()
        self.cost_s = self._took_at - began
        return bool(self._held) and self._held[-1] is snapshot

    def _make_room(self, expected: int, step: int, beside: Snapshot | None) -> bool:
        """Drop the oldest until `expected` bytes are free; False if that is not possible."""
        self.forget_after(step - 1)
        fixed = 0 if beside is None else self._bytes_of((beside,))
        if expected + fixed > self.budget_bytes:
            return False
        while self.bytes + expected > self.budget_bytes:
            oldest = next(held for held in self._held if held is not beside)
            self._held = tuple(held for held in self._held if held is not oldest)
        return True

    def _append(self, snapshot: Snapshot, beside: Snapshot | None) -> None:
        held = (*self._held, snapshot)
        while len(held) > 1 and held[0] is not beside and self._is_over(held):
            held = held[1:]
        # The state may have grown beyond the expected size. The budget holds even then.
        self._held = held if self._bytes_of(held) <= self.budget_bytes else ()

    def _is_over(self, held: tuple[Snapshot, ...]) -> bool:
        """Whether the oldest is not needed to reach far enough back, or does not fit."""
        is_unneeded = held[1].step <= held[-1].step - self.steps
        return is_unneeded or self._bytes_of(held) > self.budget_bytes

    def _least_gap(self) -> int:
        """Steps between two snapshots, so that those that fit reach `steps` back."""
        # `fit - 1` gaps lie between `fit` snapshots.
        # Blocks that neighbours share are there once, whatever the number of snapshots.
        each = self._size_bytes - self._shared_bytes + OVERHEAD_BYTES
        fit = (self.budget_bytes - self._shared_bytes) // max(1, each)
        return max(1, math.ceil(self.steps / max(1, fit - 1)))

    def copies_before(self, step: int) -> LargeCopies:
        """Copies of large arrays for a snapshot of `step`; the one before it shares its blocks."""
        before = self.nearest(step - 1)
        return LargeCopies({} if before is None else before.large, self._sizes)

    def forget_after(self, step: int) -> None:
        """Drop the snapshots of steps after `step`."""
        self._held = tuple(held for held in self._held if held.step <= step)

    def clear(self, off: str | None = None) -> None:
        """Drop all snapshots; with a reason `off`, take no more of them."""
        self._held = ()
        self.off = off or self.off

    # -- read by any thread -----------------------------------------------------------------------

    def nearest(self, step: int) -> Snapshot | None:
        """The last snapshot at or before `step`; None if there is none."""
        return next((held for held in reversed(self._held) if held.step <= step), None)

    def before(self, step: int) -> list[Snapshot]:
        """The snapshots of earlier steps than `step`, the newest first."""
        return [held for held in reversed(self._held) if held.step < step]

    @property
    def snapshot_steps(self) -> list[int]:
        """The steps that have a snapshot, in ascending order."""
        return [held.step for held in self._held]

    @property
    def first_step(self) -> int | None:
        """The oldest step that the run can go back to; None without a snapshot."""
        held = self._held
        return held[0].step if held else None

    @property
    def bytes(self) -> int:
        """Bytes of all snapshots, shared memory counted once."""
        return self._bytes_of(self._held)

    def replay_cost_s(self, step: int) -> float | None:
        """About how many seconds going back from `step` takes at most, by the largest gap."""
        held, times = self._held, list(self._steps_s)
        if not held or not times:
            return None
        steps = [each.step for each in held] + [step]
        gap = max(after - before for before, after in pairwise(steps))
        return max(0, gap - 1) * statistics.median(times)

    def describe(self, step: int) -> dict[str, Any]:
        """The fields of `GET /debug/rewind` that the ring knows, for a run at `step`."""
        return {
            "first_step": self.first_step,
            "snapshot_steps": self.snapshot_steps,
            "bytes": self.bytes,
            "budget_bytes": self.budget_bytes,
            "replay_cost_s": self.replay_cost_s(step),
        }

    @staticmethod
    def _bytes_of(held: tuple[Snapshot, ...]) -> int:
        return snapshot_bytes(*held) + OVERHEAD_BYTES * len(held)

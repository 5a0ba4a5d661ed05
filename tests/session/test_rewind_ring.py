"""The ring of snapshots: never above its bytes, honest about how far back it reaches."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from midstep.core.errors import ConfigError
from midstep.session.rewind.snapshot_ring import OVERHEAD_BYTES, SnapshotRing
from midstep.session.state.host_memory import free_host_bytes
from midstep.session.state.snapshot import Snapshot, share_unchanged, tree_bytes

FLOAT_BYTES = 4


class Clock:
    """Time that only moves when it is told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Counted:
    """Takes snapshots of so many numbers, and notes the most that was held with one being made."""

    def __init__(self, ring: SnapshotRing, clock: Clock, *, cost_s: float = 0.0) -> None:
        self.ring, self.clock, self.cost_s = ring, clock, cost_s
        self.peak, self.taken = 0, 0

    def offer(self, step: int, numbers: int) -> bool:
        def take() -> Snapshot:
            self.clock.now += self.cost_s
            self.taken += 1
            weights = torch.full((numbers,), float(step))
            made = Snapshot.take({"model": Part(weights)}, step=step)
            self.peak = max(self.peak, self.ring.bytes + made.bytes + OVERHEAD_BYTES)
            return made

        return self.ring.is_due(step) and self.ring.take(take, step, lambda: numbers * FLOAT_BYTES)


class Part:
    """A part whose state is one tensor."""

    def __init__(self, weights: torch.Tensor) -> None:
        self.weights = weights

    def state_dict(self) -> dict[str, torch.Tensor]:
        return {"weights": self.weights}

    def load_state_dict(self, state: dict[str, torch.Tensor]) -> None:
        self.weights = state["weights"]


@settings(max_examples=60, deadline=None)
@given(
    budget=st.integers(0, 8 * OVERHEAD_BYTES),
    steps=st.integers(0, 40),
    sizes=st.lists(st.integers(1, 40_000), min_size=1, max_size=60),
    pause_s=st.floats(0.0, 2.0),
    cost_s=st.floats(0.0, 0.05),
    back=st.integers(0, 60),
)
def test_the_ring_is_never_above_its_bytes_and_knows_how_far_it_reaches(
    budget: int, steps: int, sizes: list[int], pause_s: float, cost_s: float, back: int
) -> None:
    clock = Clock()
    ring = SnapshotRing(budget, steps, clock=clock)
    counted = Counted(ring, clock, cost_s=cost_s)
    held: set[int] = set()
    for step, numbers in enumerate(sizes):
        clock.now += pause_s
        if counted.offer(step, numbers):
            held.add(step)
        if step == back:
            ring.forget_after(step // 2)
            held = {each for each in held if each <= step // 2}
        assert ring.bytes <= budget
        assert set(ring.snapshot_steps) <= held
        for asked in range(step + 1):
            found = ring.nearest(asked)
            expected = [each for each in ring.snapshot_steps if each <= asked]
            assert (None if found is None else found.step) == (expected[-1] if expected else None)
        reachable = [asked for asked in range(step + 1) if ring.nearest(asked) is not None]
        assert ring.first_step == (reachable[0] if reachable else None)
    assert counted.peak <= budget


def test_snapshots_take_a_hundredth_of_the_time_at_most() -> None:
    clock = Clock()
    ring = SnapshotRing(1 << 30, 10_000, clock=clock)
    counted = Counted(ring, clock, cost_s=0.02)
    for step in range(3_000):
        clock.now += 0.01
        counted.offer(step, 8)
    spent = counted.taken * 0.02
    assert counted.taken > 10
    assert spent <= 0.01 * clock.now + 0.02  # the first one is free


def test_few_snapshots_that_fit_are_spread_over_the_steps_asked_for() -> None:
    clock = Clock()
    size = 10_000
    ring = SnapshotRing(5 * (size * FLOAT_BYTES + OVERHEAD_BYTES), 64, clock=clock)
    counted = Counted(ring, clock)
    for step in range(500):
        clock.now += 1.0
        counted.offer(step, size)
        if step > 64:
            assert ring.first_step is not None
            assert step - ring.first_step >= 48  # all but the gap that one slot is being filled in


def test_no_steps_or_no_room_means_no_snapshot_and_says_so() -> None:
    clock = Clock()
    for ring in (SnapshotRing(1 << 30, 0, clock=clock), SnapshotRing(1000, 64, clock=clock)):
        counted = Counted(ring, clock)
        assert not any(counted.offer(step, 100) for step in range(5))
        assert counted.taken == 0
        assert ring.describe(5)["first_step"] is None
    with pytest.raises(ConfigError, match="at least 0"):
        SnapshotRing(-1)


def test_the_default_is_a_tenth_of_the_free_memory() -> None:
    assert 0 < SnapshotRing().budget_bytes <= free_host_bytes() // 5


def test_unchanged_tensors_are_held_once_and_changed_bits_are_not() -> None:
    frozen, moving = torch.rand(100), torch.tensor([0.0, 1.0])
    first = Snapshot.take({"a": Part(frozen), "b": Part(moving)}, step=0)
    moving[0] = -0.0  # equal as a number, not as bits
    second = share_unchanged(Snapshot.take({"a": Part(frozen), "b": Part(moving)}, step=1), first)
    assert second.states["a"]["weights"] is first.states["a"]["weights"]
    assert second.states["b"]["weights"] is not first.states["b"]["weights"]
    assert tree_bytes(first.states, second.states) == 100 * FLOAT_BYTES + 2 * 2 * FLOAT_BYTES


def test_tied_weights_stay_tied_when_snapshots_share() -> None:
    weight = torch.rand(4)
    parts = {"a": Part(weight), "b": Part(weight)}
    first, second = (Snapshot.take(parts, step=step) for step in (0, 1))
    shared = share_unchanged(second, first)
    one, other = shared.states["a"]["weights"], shared.states["b"]["weights"]
    assert one.data_ptr() == other.data_ptr()

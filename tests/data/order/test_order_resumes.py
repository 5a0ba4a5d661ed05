"""Resumed anywhere, under any policy, the data go on bit for bit as if nothing had happened."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from tests.checkers.resume import assert_resumes
from tests.data.order.loaders import SAMPLERS, Case, Machine, after, commit, whole

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create 4 worker processes")

SEEDED = ["epoch_reseed", "fixed_order"]
WORKERS = [(0, False), (1, False), (1, True), (2, False), (2, True), (4, False), (4, True)]
MAP_STYLE = [name for name in SAMPLERS if "iterable" not in name]

FULL = [
    Case(sampler=sampler, workers=workers, persistent=persistent, policy=policy)
    for sampler, (workers, persistent), policy in itertools.product(SAMPLERS, WORKERS, SEEDED)
] + [
    Case(sampler=sampler, workers=workers, persistent=persistent, policy="user", draws=not workers)
    for sampler, (workers, persistent) in itertools.product(SAMPLERS, WORKERS)
]

# Each sampler without workers at every boundary; with workers, every pair of (sampler, policy)
# and (workers, policy) once or more, at a few boundaries.
WITHOUT = [case for case in FULL if not case.workers]
PAIRED = [
    Case(sampler="random", workers=2, policy="epoch_reseed"),
    Case(sampler="weighted", workers=1, persistent=True, policy="fixed_order"),
    Case(sampler="batch sampler", workers=2, persistent=True, policy="epoch_reseed"),
    Case(sampler="distributed", workers=1, policy="epoch_reseed"),
    Case(sampler="subset sampler", workers=2, persistent=True, policy="fixed_order"),
    Case(sampler="iterable", workers=2, policy="epoch_reseed"),
    Case(sampler="iterable", workers=2, persistent=True, policy="fixed_order"),
    Case(sampler="iterable, drop last", workers=2, persistent=True, policy="user", draws=False),
    Case(sampler="random", workers=2, persistent=True, policy="user", draws=False),
    Case(sampler="batch sampler", workers=1, policy="user", draws=False),
    Case(sampler="replacement", workers=2, policy="user", draws=False),
    Case(sampler="iterable", workers=4, persistent=True, policy="epoch_reseed"),
]


@pytest.fixture
def machine() -> Iterator[Machine]:
    one = Machine()
    yield one
    one.close()


@pytest.mark.parametrize("case", WITHOUT, ids=str)
def test_a_loader_without_workers_resumes_at_every_boundary(case, machine):
    assert_resumes(lambda: machine.start(case), commit=commit)


@pytest.mark.parametrize("case", PAIRED, ids=str)
def test_a_loader_with_workers_resumes_at_its_boundaries(case, machine):
    # Batch 1, the epoch's end, and inside the second epoch.
    assert_resumes(lambda: machine.start(case), at=[1, 3, 4], commit=commit)


@pytest.mark.soak
@pytest.mark.parametrize("case", FULL, ids=str)
def test_every_loader_resumes_at_every_boundary(case, machine):
    assert_resumes(lambda: machine.start(case), commit=commit)


@pytest.mark.parametrize("policy", SEEDED)
def test_worker_count_changes_nothing_and_may_change_at_a_resume(policy, machine):
    """The saved states are equal, so resuming one with every count covers every pair of counts."""
    expected = whole(machine.start(Case(policy=policy)))
    states = []
    for workers in (0, 1, 2, 4):
        states.append(after(machine.start(Case(policy=policy, workers=workers)), 4))
    assert all(state == states[0] for state in states)
    for workers in (0, 1, 2, 4):
        resumed = machine.start(Case(policy=policy, workers=workers, persistent=workers > 0))
        resumed.load_state_dict(states[0])
        assert whole(resumed) == expected[4:], f"{workers} workers"


@pytest.mark.soak
@pytest.mark.parametrize("policy", SEEDED)
@pytest.mark.parametrize("sampler", MAP_STYLE)
@pytest.mark.parametrize("saved", [0, 1, 2, 4])
def test_every_sampler_resumes_with_every_other_worker_count(sampler, policy, saved, machine):
    case = Case(sampler=sampler, policy=policy, workers=saved)
    expected = whole(machine.start(case))
    for position, workers in itertools.product(range(len(expected) + 1), (0, 1, 2, 4)):
        state = after(machine.start(case), position)
        resumed = machine.start(case.with_(workers=workers))
        resumed.load_state_dict(state)
        assert whole(resumed) == expected[position:], f"at {position} with {workers} workers"


def test_a_stream_saved_without_workers_goes_on_with_one(machine):
    case = Case(sampler="iterable")
    expected = whole(machine.start(case))
    state = after(machine.start(case), 2)
    resumed = machine.start(case.with_(workers=1, persistent=True))  # a copy that lives on too
    resumed.load_state_dict(state)
    assert whole(resumed) == expected[2:]


@pytest.mark.parametrize("policy", SEEDED)
def test_random_draws_and_a_second_loader_in_the_loop_move_nothing(policy, machine):
    expected = whole(machine.start(Case(policy=policy)))
    assert whole(machine.start(Case(policy=policy), disturbed=True)) == expected
    assert whole(machine.start(Case(policy=policy, workers=1), disturbed=True)) == expected


def test_batches_fetched_ahead_but_not_trained_on_come_again(machine):
    case = Case(workers=2)
    expected = whole(machine.start(case))
    killed = machine.start(case)
    items = iter(killed)
    assert [next(items) for _ in range(3)] == expected[:3]
    killed.commit(4)  # the first batch alone
    state = killed.state_dict()
    del items
    resumed = machine.start(case)
    resumed.load_state_dict(state)
    assert whole(resumed) == expected[1:]

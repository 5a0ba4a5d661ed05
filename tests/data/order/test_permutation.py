"""The order of an epoch: a bijection, a pure function of (seed, epoch), and never another one."""

from __future__ import annotations

import hashlib

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from midstep.core.errors import ConfigError, FormatError
from midstep.data.order.permutation import RANDPERM_LIMIT, Order
from midstep.data.order.samplers import EpochSeededRandomSampler
from tests.checkers.resume import assert_resumes

ALGORITHMS = ["randperm-1", "feistel-1"]

# A change here means that old runs would be resumed with another order: raise the algorithm's
# number instead, and keep the old one readable.
GOLDEN_TEN = {
    ("randperm-1", 0, 0): [3, 6, 2, 0, 1, 4, 8, 9, 7, 5],
    ("randperm-1", 0, 1): [1, 2, 3, 5, 6, 7, 8, 9, 4, 0],
    ("randperm-1", 1, 0): [6, 3, 8, 0, 9, 5, 1, 7, 2, 4],
    ("feistel-1", 0, 0): [6, 4, 5, 8, 7, 0, 3, 2, 9, 1],
    ("feistel-1", 0, 1): [6, 7, 1, 3, 2, 8, 9, 0, 5, 4],
    ("feistel-1", 1, 0): [1, 5, 4, 6, 0, 8, 7, 2, 9, 3],
}
GOLDEN_SLICES = [
    (100_000, "randperm-1", 0, 100_000, "26c732423df01f21"),
    (100_000, "feistel-1", 0, 100_000, "1323d1af79b6213a"),
    (1_000_000, "auto", 0, 1_000_000, "8559ee9088e5ede0"),
    (1_000_001, "auto", 0, 4096, "84a1663e4f8db212"),
    (100_000_000, "auto", 100_000_000 - 4096, 100_000_000, "150ea1057170bdd8"),
]


def digest(ids: torch.Tensor) -> str:
    return hashlib.sha256(ids.numpy().tobytes()).hexdigest()[:16]


@pytest.mark.parametrize(("key", "ids"), GOLDEN_TEN.items(), ids=str)
def test_ten_samples_come_in_the_golden_order(key, ids):
    algorithm, seed, epoch = key
    assert Order(10, seed, epoch, algorithm).ids().tolist() == ids


@pytest.mark.parametrize(("n", "algorithm", "start", "stop", "golden"), GOLDEN_SLICES)
def test_larger_orders_have_their_golden_hash(n, algorithm, start, stop, golden):
    assert digest(Order(n, 7, 2, algorithm).ids(start, stop)) == golden


def test_auto_turns_to_feistel_above_a_million():
    assert Order(RANDPERM_LIMIT, 0).algorithm == "randperm-1"
    assert Order(RANDPERM_LIMIT + 1, 0).algorithm == "feistel-1"


@settings(deadline=None)
@given(
    n=st.integers(0, 3000),
    seed=st.integers(0, 2**63),
    epoch=st.integers(0, 1000),
    algorithm=st.sampled_from(ALGORITHMS),
)
def test_every_sample_comes_exactly_once(n, seed, epoch, algorithm):
    order = Order(n, seed, epoch, algorithm)
    ids = order.ids()
    assert ids.dtype == torch.int64
    assert ids.sort().values.equal(torch.arange(n))
    assert order.positions(ids).equal(torch.arange(n))


@settings(deadline=None)
@given(n=st.integers(1, 10**12), data=st.data())
def test_a_slice_anywhere_is_distinct_in_range_and_invertible(n, data):
    start = data.draw(st.integers(0, n))
    stop = data.draw(st.integers(start, min(n, start + 512)))
    order = Order(n, 5, 1, "feistel-1")
    ids = order.ids(start, stop)
    assert len(set(ids.tolist())) == stop - start
    assert all(0 <= i < n for i in ids.tolist())
    assert order.positions(ids).equal(torch.arange(start, stop))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_slices_join_to_the_whole(algorithm):
    order = Order(1000, 3, 4, algorithm)
    joined = torch.cat([order.ids(start, min(start + 17, 1000)) for start in range(0, 1000, 17)])
    assert joined.equal(order.ids())


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_seed_and_epoch_are_hashed_not_added(algorithm):
    first, second = Order(100, 0, 1, algorithm).ids(), Order(100, 1, 0, algorithm).ids()
    assert not first.equal(second)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_neighbours_end_up_as_far_apart_as_by_chance(algorithm):
    ids = Order(200_000, 1, 0, algorithm).ids().double()
    # Two independent uniform positions lie a third of the range apart on average.
    assert abs(float(ids.diff().abs().mean()) / 200_000 - 1 / 3) < 0.01
    correlation = torch.corrcoef(torch.stack([ids, torch.arange(200_000).double()]))[0, 1]
    assert abs(float(correlation)) < 0.01


def test_drawing_an_order_moves_no_global_generator():
    before = torch.get_rng_state()
    Order(1000, 0).ids()
    Order(2_000_000, 0).ids(0, 1000)
    assert torch.get_rng_state().equal(before)


def test_a_slice_handed_out_is_the_callers_own():
    order = Order(10, 0)
    order.ids(0, 5).zero_()
    assert order.ids().tolist() == GOLDEN_TEN["randperm-1", 0, 0]


@pytest.mark.parametrize("span", [(-1, 2), (3, 2), (0, 11)])
def test_positions_outside_the_order_are_refused(span):
    with pytest.raises(ConfigError, match="order of 10"):
        Order(10, 0).ids(*span)


def test_unknown_ids_and_algorithms_are_refused_with_what_is_known():
    with pytest.raises(ConfigError, match=r"\[0, 10\)"):
        Order(10, 0).positions(torch.tensor([10]))
    with pytest.raises(ConfigError, match="'feistel-1'"):
        Order(10, 0, algorithm="xorshift")


@pytest.mark.parametrize("length", [0, 1, 7])
def test_sampler_resumes_at_every_position(length):
    assert_resumes(
        lambda: EpochSeededRandomSampler(range(length), base_seed=9),
        commit=lambda sampler, count: sampler.advance(count),
    )


def test_sampler_resumes_around_the_edge_of_a_block_and_in_a_later_epoch():
    def make() -> EpochSeededRandomSampler:
        sampler = EpochSeededRandomSampler(range(20_000), base_seed=9)
        sampler.set_epoch(3)
        return sampler

    assert_resumes(
        make,
        at=[0, 1, 8191, 8192, 8193, 19_999, 20_000],
        commit=lambda sampler, count: sampler.advance(count),
    )


def test_ids_drawn_ahead_but_not_trained_on_come_again():
    sampler = EpochSeededRandomSampler(range(10), base_seed=0)
    drawn = iter(sampler)
    ahead = [next(drawn) for _ in range(6)]
    sampler.advance(2)
    assert list(sampler)[:4] == ahead[2:]


def test_a_new_epoch_begins_at_its_first_sample_with_another_order():
    sampler = EpochSeededRandomSampler(range(100), base_seed=0)
    first = list(sampler)
    sampler.advance(30)
    sampler.set_epoch(1)
    assert sampler.cursor == 0
    assert sorted(sampler) == sorted(first)
    assert list(sampler) != first


def test_naming_the_current_epoch_again_keeps_the_cursor():
    sampler = EpochSeededRandomSampler(range(100), base_seed=0)
    sampler.advance(30)
    sampler.set_epoch(0)
    assert sampler.cursor == 30


def test_a_state_of_other_data_is_refused_with_both_lengths():
    state = EpochSeededRandomSampler(range(10), base_seed=0).state_dict()
    with pytest.raises(FormatError, match="10 samples, the dataset now 11"):
        EpochSeededRandomSampler(range(11), base_seed=0).load_state_dict(state)


def test_a_cursor_cannot_leave_the_epoch():
    sampler = EpochSeededRandomSampler(range(10), base_seed=0)
    with pytest.raises(ConfigError, match="at 0 of 10"):
        sampler.advance(11)
    with pytest.raises(FormatError, match="saved cursor 11"):
        sampler.load_state_dict(sampler.state_dict() | {"cursor": 11})


class Forgetful(EpochSeededRandomSampler):
    """Loses its place, as a loader does that counts what it drew and not what was trained on."""

    def state_dict(self):
        return super().state_dict() | {"cursor": 0}


def test_the_resume_checker_sees_a_lost_place():
    with pytest.raises(AssertionError, match=r"after a resume|killed at"):
        assert_resumes(
            lambda: Forgetful(range(7), base_seed=9),
            commit=lambda sampler, count: sampler.advance(count),
        )

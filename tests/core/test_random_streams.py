from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from midstep.core.random_streams import RandomStream, stream_key

GOLDEN = [(0, "order", 0), (0, "order", 1), (1, "order", 0), (42, "negatives", 7)]


def test_keys_are_what_they_have_always_been() -> None:
    """Files on disk depend on these: a change here is a change of every data order."""
    assert [f"{stream_key(seed, name, epoch):016x}" for seed, name, epoch in GOLDEN] == [
        "70647c9c828b3435",
        "dc008516473f3cbe",
        "a4188d4393991339",
        "d705d434a992a21d",
    ]


def test_draws_are_what_they_have_always_been() -> None:
    stream = RandomStream(42, "negatives", epoch=7)
    assert [stream.integer(1000, at=at) for at in range(6)] == [193, 280, 886, 25, 623, 834]


@settings(deadline=None)
@given(st.integers(0, 50), st.integers(0, 50), st.integers(0, 50), st.integers(0, 50))
def test_seed_and_epoch_are_hashed_not_added(a: int, b: int, c: int, d: int) -> None:
    assert (stream_key(a, "order", b) == stream_key(c, "order", d)) == ((a, b) == (c, d))


@settings(deadline=None)
@given(st.integers(0, 2**63), st.integers(1, 10**9), st.integers(0, 10**9))
def test_a_draw_depends_on_its_position_alone(seed: int, bound: int, at: int) -> None:
    first, second = RandomStream(seed, "a"), RandomStream(seed, "a")
    second.bits(at + 1)
    assert first.integer(bound, at=at) == second.integer(bound, at=at) < bound
    assert 0.0 <= first.uniform(at) < 1.0


def test_draws_are_spread_evenly() -> None:
    stream = RandomStream(3, "evenness")
    counts = [0] * 16
    for at in range(16_000):
        counts[stream.integer(16, at=at)] += 1
    chi_square = sum((count - 1000) ** 2 / 1000 for count in counts)
    assert chi_square < 37.7  # the 99.9 % point for 15 degrees of freedom


def test_no_global_generator_is_touched() -> None:
    before = torch.random.get_rng_state()
    drawn = torch.rand(3, generator=RandomStream(1, "a").torch_generator())
    assert torch.equal(drawn, torch.rand(3, generator=RandomStream(1, "a").torch_generator()))
    assert torch.equal(before, torch.random.get_rng_state())


def test_a_child_stream_is_another_stream() -> None:
    stream = RandomStream(1, "a")
    assert stream.child("b").key not in (stream.key, stream.child("c").key)

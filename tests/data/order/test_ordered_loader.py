"""Order policies: what they change, what they leave alone, and what they refuse."""

from __future__ import annotations

import json
import pickle
import random
from collections.abc import Iterator
from itertools import chain
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader, DistributedSampler, IterableDataset, RandomSampler, Subset

from midstep.core.errors import ConfigError, FormatError
from midstep.data.order.order_strategy import OrderConfig
from midstep.data.order.ordered_loader import OrderedLoader
from midstep.data.order.permutation import Order
from midstep.data.order.samplers import EpochSeededRandomSampler, SeededIndices
from midstep.data.order.stream_worker import StreamPosition, WorkerBatch
from midstep.data.random_state import RandomState, preserve_rng
from tests.data.order.loaders import (
    BATCH,
    LENGTH,
    SAMPLERS,
    Augmented,
    Case,
    Pairs,
    Stream,
    as_rows,
    noise,
    rows,
    seed_everything,
)

SEEDED = OrderConfig(policy="epoch_reseed", seed=0)
USER = OrderConfig()


def ids(loader: Any) -> list[list[int]]:
    return [[int(row[0]) for row in rows(batch)] for batch in loader]


# -- the order of an epoch ------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(n=st.integers(1, 300), seed=st.integers(0, 2**62), epoch=st.integers(0, 10**6))
def test_seed_epoch_and_position_name_every_sample_once(n, seed, epoch):
    drawn = list(SeededIndices(RandomSampler(range(n)), seed, epoch))
    assert sorted(drawn) == list(range(n))
    assert drawn == list(SeededIndices(RandomSampler(range(n)), seed, epoch))


def test_seed_zero_in_epoch_one_is_not_seed_one_in_epoch_zero():
    sampler = RandomSampler(range(100))
    assert list(SeededIndices(sampler, 0, 1)) != list(SeededIndices(sampler, 1, 0))


def test_epoch_reseed_orders_each_epoch_anew_and_fixed_order_does_not():
    loader = Case().loader()
    with OrderedLoader(loader, SEEDED):
        first, second = ids(loader), ids(loader)
    assert first != second
    with OrderedLoader(loader, OrderConfig(policy="fixed_order", seed=0)):
        assert ids(loader) == ids(loader) == first


def test_augmentation_differs_between_epochs_even_in_a_fixed_order():
    loader = Case().loader()
    with OrderedLoader(loader, OrderConfig(policy="fixed_order", seed=0)):
        first, second = ([rows(batch) for batch in loader] for _ in range(2))
    assert first != second


def test_a_sampler_without_end_is_drawn_as_far_as_it_is_used():
    class Endless:
        def __iter__(self) -> Iterator[list[int]]:
            while True:
                yield random.sample(range(LENGTH), 3)

    loader = DataLoader(Augmented(), batch_sampler=Endless(), collate_fn=as_rows)
    with OrderedLoader(loader, SEEDED) as order:
        batches = iter(loader)
        first = [next(batches) for _ in range(100)]
        order.seek(epoch=0, cursor=3 * 98)
        assert [next(batches) for _ in range(2)] == first[98:]


def test_a_samplers_own_generators_are_seeded_and_put_back():
    class Own:
        def __init__(self) -> None:
            self.python, self.new = random.Random(3), np.random.default_rng(3)
            self.old, self.torch = np.random.RandomState(3), torch.Generator().manual_seed(3)

        def draw(self) -> list[float]:
            new, old = float(self.new.random()), float(self.old.rand())
            return [self.python.random(), new, old, float(torch.rand((), generator=self.torch))]

        def __iter__(self) -> Iterator[int]:
            return iter([int(number * LENGTH) for number in self.draw()])

    sampler, untouched = Own(), Own().draw()
    loader = DataLoader(Augmented(), sampler=sampler, batch_size=2, collate_fn=as_rows)
    with OrderedLoader(loader, SEEDED) as order:
        first = ids(loader)
        order.seek(epoch=0)
        assert ids(loader) == first
    assert sampler.draw() == untouched


def test_a_samples_random_numbers_belong_to_its_original_id():
    data = Augmented()
    whole = DataLoader(data, batch_size=LENGTH, collate_fn=list)
    part = DataLoader(Subset(data, [7, 3]), batch_size=2, collate_fn=list)
    with OrderedLoader(whole, SEEDED), OrderedLoader(part, SEEDED):
        assert rows(next(iter(part))) == [rows(next(iter(whole)))[at] for at in (7, 3)]


def test_a_dataset_that_reads_whole_batches_still_does():
    class Batched(Augmented):
        def __getitems__(self, index: list[int]) -> list[list[float]]:
            return [[float(each), *noise(), 1.0] for each in index]

    loader = DataLoader(Batched(), batch_size=BATCH, shuffle=True, collate_fn=list)
    with OrderedLoader(loader, SEEDED) as order:
        first = [rows(batch) for batch in loader]
        assert all(row[-1] == 1.0 for batch in first for row in batch)
        order.seek(epoch=0, cursor=BATCH)
        assert [rows(batch) for batch in loader] == first[1:]


# -- what is left alone ---------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["epoch_reseed", "fixed_order"])
@pytest.mark.parametrize("workers", [0, 1])
def test_a_seeded_pass_moves_no_global_generator(policy, workers):
    loader = Case(workers=workers).loader()
    before = RandomState.take()
    with OrderedLoader(loader, OrderConfig(policy=policy, seed=0)):
        ids(loader)
    assert RandomState.take().same(before)


def trace(loader: Any, epochs: int = 2) -> list[Any]:
    """Batches, and where every generator stands at each of them."""
    seed_everything(1)
    found: list[Any] = []
    for _ in range(epochs):
        for batch in loader:
            found.append([rows(batch), noise()])
        state = RandomState.take()
        numpy = [state.numpy["state"]["key"].tolist(), state.numpy["state"]["pos"]]
        found.append([state.python, numpy, state.cpu.tolist()])
    return found


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_policy_user_leaves_ids_and_generators_as_the_bare_loader_does(sampler):
    case = Case(sampler=sampler)
    expected, loader = trace(case.loader()), case.loader()
    with OrderedLoader(loader, USER):
        assert trace(loader) == expected


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("sampler", ["random", "batch sampler", "iterable"])
def test_policy_user_leaves_workers_as_the_bare_loader_does(sampler, persistent):
    case = Case(sampler=sampler, workers=2, persistent=persistent, draws=False)
    expected, loader = trace(case.loader()), case.loader()
    with OrderedLoader(loader, USER):
        assert trace(loader) == expected


def test_policy_user_leaves_even_augmenting_workers_alone_when_told_to_go_on():
    case = Case(workers=1)
    expected, loader, told = trace(case.loader()), case.loader(), []
    config = OrderConfig(enforce_sampler_state=False)
    with OrderedLoader(loader, config, report=told.append) as order:
        assert trace(loader) == expected
    assert len(told) == len(order.problems) == 1
    assert "workers draw random numbers" in told[0]


def test_validation_under_the_guard_moves_nothing():
    case, validation = Case(policy="user"), DataLoader(Augmented(), shuffle=True)

    def train(validate: bool) -> list[Any]:
        seed_everything(2)
        loader, found = case.loader(), []
        with OrderedLoader(loader, USER):
            for _ in range(2):
                found += [[rows(batch), noise()] for batch in loader]
                if validate:
                    with preserve_rng():
                        list(validation)
        return found

    assert train(validate=True) == train(validate=False)


def test_the_loader_is_given_back_as_it_was():
    loader = Case(workers=1, persistent=True).loader()
    before = dict(vars(loader))
    with OrderedLoader(loader, SEEDED):
        assert isinstance(loader, DataLoader)
        assert (len(loader), len(loader.dataset)) == (3, LENGTH)
        assert loader.dataset.draws
        assert loader.dataset[3][0] == 3.0
        assert loader.batch_sampler.batch_size == BATCH
        ids(loader)
    assert type(loader) is DataLoader
    assert vars(loader) == before
    ids(loader)


def test_what_the_user_changes_meanwhile_stays():
    loader = Case().loader()
    with OrderedLoader(loader, SEEDED):
        loader.collate_fn = list
    assert loader.collate_fn is list


def test_workers_that_live_on_go_on_with_the_users_sampler_after_policy_user():
    loader = Case(workers=1, persistent=True, draws=False).loader()
    with OrderedLoader(loader, USER):
        ids(loader)
        workers = [worker.pid for worker in loader._iterator._workers]
    assert sorted(chain(*ids(loader))) == list(range(LENGTH))
    assert [worker.pid for worker in loader._iterator._workers] == workers


def test_a_worker_may_set_its_dataset_up():
    loader = DataLoader(
        Augmented(),
        batch_size=BATCH,
        num_workers=1,
        collate_fn=as_rows,
        worker_init_fn=lambda _worker: setattr(
            torch.utils.data.get_worker_info().dataset, "draws", False
        ),
    )
    with OrderedLoader(loader, SEEDED):
        assert all(len(row) == 2 for batch in loader for row in batch)


class Shard(Stream):
    """Sharded by its worker's init function, as in torch's own documentation."""

    start, end = 0, LENGTH

    def __iter__(self) -> Iterator[list[float]]:
        while self.start + self.position < self.end:
            self.position += 1
            yield [float(self.start + self.position - 1)]
        self.position = 0


def _shard(worker: int) -> None:
    info = torch.utils.data.get_worker_info()
    info.dataset.start, info.dataset.end = (0, 6) if worker == 0 else (6, LENGTH)
    info.dataset.seed = info.dataset.batch_size = None  # names of its own


def test_a_worker_may_set_its_shard_of_a_stream_up():
    loader = DataLoader(
        Shard(), batch_size=2, num_workers=2, collate_fn=list, worker_init_fn=_shard
    )
    with OrderedLoader(loader, SEEDED):
        assert ids(loader) == [[0, 1], [6, 7], [2, 3], [8, 9], [4, 5]]


def test_only_the_batch_of_a_shipment_is_pinned():
    class Batch:
        def pin_memory(self) -> str:
            return "pinned"

    shipment = WorkerBatch(0, 3, StreamPosition(4, {"position": 4}), count=4, batch=Batch())
    assert vars(shipment.pin_memory()) == vars(shipment) | {"batch": "pinned"}


def test_an_error_of_the_dataset_passes_and_the_loop_may_go_on():
    class Broken(Augmented):
        def __getitem__(self, index: int) -> list[float]:
            if index == 5:
                raise KeyError("sample 5 is damaged")
            return super().__getitem__(index)

    loader = DataLoader(Broken(), batch_size=BATCH, collate_fn=as_rows)
    with OrderedLoader(loader, SEEDED):
        batches = iter(loader)
        next(batches)
        with pytest.raises(KeyError, match="sample 5"):
            next(batches)
        assert ids([next(batches)]) == [[8, 9]]


class Threads(Augmented):
    def __getitem__(self, index: int) -> list[float]:
        return [float(torch.get_num_threads())]


def test_samples_are_read_with_one_thread_as_in_a_worker():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        loader = DataLoader(Threads(), batch_size=BATCH, collate_fn=list)
        with OrderedLoader(loader, SEEDED):
            assert list(chain(*next(iter(loader)))) == [1.0] * BATCH
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_the_stand_ins_travel_to_another_process():
    for sampler in ("random", "iterable"):
        loader = Case(sampler=sampler).loader()
        with OrderedLoader(loader, SEEDED):
            parts = pickle.loads(pickle.dumps((loader.dataset, loader.collate_fn)))
        assert (len(parts[0].inner.__dict__), parts[1].seed) == (len(vars(loader.dataset)), 0)
        assert parts[1].collate is as_rows


@pytest.mark.soak
@pytest.mark.parametrize("policy", ["user", "epoch_reseed"])
@pytest.mark.parametrize("sampler", ["random", "iterable"])
def test_workers_may_be_started_by_spawn(sampler, policy):
    case, found = Case(sampler=sampler, workers=2, draws=policy != "user"), []
    for context in ("fork", "spawn"):
        loader = case.loader()
        loader.multiprocessing_context = context
        seed_everything(0)
        with OrderedLoader(loader, OrderConfig(policy=policy, seed=0)):
            found.append([rows(batch) for batch in loader])
    assert found[0] == found[1]


def test_generators_of_every_kind_come_back_from_their_tree():
    own = [random.Random(1), np.random.default_rng(1), np.random.RandomState(1), torch.Generator()]
    state = RandomState.take(own).state_tree()
    expected = noise(), own[0].random(), own[1].random(), own[2].rand()
    drawn = torch.rand(1, generator=own[3])
    RandomState.from_tree(state).restore(own)
    assert (noise(), own[0].random(), own[1].random(), own[2].rand()) == expected
    assert torch.rand(1, generator=own[3]).equal(drawn)


# -- where one is, and going elsewhere ------------------------------------------------------------


class Listener:
    def __init__(self) -> None:
        self.told: list[Any] = []

    def before_batch(self) -> None:
        self.told.append("before")

    def after_batch(self, batch: Any, given: Any) -> None:
        self.told.append((ids([batch])[0], list(given)))

    def pass_ended(self) -> None:
        self.told.append("end")


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("config", [SEEDED, USER], ids=lambda config: config.policy)
def test_a_listener_gets_the_ids_of_each_batch_in_its_order(config, workers):
    listener, loader = Listener(), Case(workers=workers, draws=False).loader()
    with OrderedLoader(loader, config, listener=listener):
        ids(loader)
    told = listener.told
    assert [each for each in told if isinstance(each, str)] == ["before"] * 4 + ["end"]
    pairs = [each for each in told if not isinstance(each, str)]
    assert len(pairs) == 3
    assert all(shown == given for shown, given in pairs)


def test_a_stream_gets_positions_as_ids():
    listener, loader = Listener(), Case(sampler="iterable", workers=2).loader()
    with OrderedLoader(loader, SEEDED, listener=listener) as order:
        batches = iter(loader)
        next(batches)
        order.commit()
        state = order.state_dict()
    loader = Case(sampler="iterable", workers=2).loader()
    with OrderedLoader(loader, SEEDED, listener=listener) as order:
        order.load_state_dict(state)
        ids(loader)
    given = [each[1] for each in listener.told if not isinstance(each, str)]
    assert list(chain(*given)) == list(range(LENGTH))


@pytest.mark.parametrize(
    "case", [Case(), Case(workers=2, persistent=True), Case(workers=1)], ids=str
)
def test_a_running_pass_goes_on_elsewhere_at_once(case):
    loader = case.loader()
    with OrderedLoader(loader, SEEDED) as order:
        epochs = [[rows(batch) for batch in loader] for _ in range(2)]
        order.seek(epoch=0)
        batches = iter(loader)
        assert rows(next(batches)) == epochs[0][0]
        pids = [worker.pid for worker in getattr(loader._iterator, "_workers", [])]
        for epoch, batch in [(1, 1), (0, 2), (1, 0), (1, 0)]:
            order.seek(epoch, batch * BATCH)
            assert (order.epoch, order.cursor) == (epoch, batch * BATCH)
            assert rows(next(batches)) == epochs[epoch][batch]
        assert [rows(batch) for batch in batches] == epochs[1][1:]
        assert [worker.pid for worker in getattr(loader._iterator, "_workers", [])] == pids


@pytest.mark.parametrize("epoch", [0, 1])  # in the second, persistent workers live already
@pytest.mark.parametrize(
    "case",
    [Case(), *(Case(workers=2, persistent=kept, draws=False) for kept in (False, True))],
    ids=str,
)
def test_policy_user_goes_back_in_a_running_pass(case, epoch):
    loader = case.loader()
    with OrderedLoader(loader, USER) as order:
        for _ in range(epoch):
            ids(loader)
        seen, states = [], []
        for batch in loader:
            seen.append([rows(batch), noise()])
            order.commit()
            states.append((order.state_dict(), RandomState.take()))
            if len(seen) in (2, 4):
                state, boundary = states[0]
                boundary.restore()
                order.load_state_dict(state)
        assert seen[1] == seen[2] == seen[4]
        assert seen[3] == seen[5]
        assert len(seen) == 6


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("config", [SEEDED, USER], ids=lambda config: config.policy)
def test_a_stream_goes_back_in_a_running_pass(config, workers):
    loader = Case(sampler="iterable", workers=workers, persistent=workers > 0, draws=False).loader()
    with OrderedLoader(loader, config) as order:
        for _ in range(2):
            states, seen = [order.state_dict()], []
            for batch in loader:
                seen.append(rows(batch))
                order.commit()
                states.append(order.state_dict())
                if len(seen) == 2:
                    order.load_state_dict(states[0])
                elif len(seen) == 4:
                    order.load_state_dict(states[1])
            assert seen[:2] == seen[2:4]
            assert seen[4] == seen[1]
            assert len(set(map(tuple, chain(*seen)))) == LENGTH
            order.set_epoch(order.epoch + 1)


def test_policy_user_does_not_take_the_generators_of_another_epoch():
    loader = Case().loader()
    with OrderedLoader(loader, USER) as order:
        states = []
        for _ in range(2):
            next(iter(loader))
            order.commit()
            states.append(order.state_dict())
        assert order.epoch == 1
        order.load_state_dict(states[0])
        with pytest.raises(FormatError, match="load_random_state"):
            iter(loader)


def test_policy_user_goes_back_to_the_first_batch_of_its_epoch():
    loader = Case().loader()
    with OrderedLoader(loader, USER) as order:
        batches = iter(loader)
        boundary = RandomState.take()
        first = rows(next(batches))
        boundary.restore()
        order.seek(epoch=0)
        assert rows(next(batches)) == first


@pytest.mark.parametrize("config", [SEEDED, USER], ids=lambda config: config.policy)
def test_another_sampler_takes_effect_with_the_next_batch_and_keeps_the_workers(config):
    loader = Case(workers=1, persistent=True, draws=False).loader()
    own = loader.batch_sampler
    with OrderedLoader(loader, config) as order:
        batches = iter(loader)
        next(batches)
        pids = [worker.pid for worker in loader._iterator._workers]
        order.use_sampler([[1, 2], [3]])
        assert ids(batches) == [[1, 2], [3]]
        assert [worker.pid for worker in loader._iterator._workers] == pids
        del batches
    assert loader.batch_sampler is own
    assert len(ids(loader)) == 3


def test_a_place_in_a_very_long_order_is_reached_without_drawing_it():
    n = 10**8
    sampler = EpochSeededRandomSampler(range(n), base_seed=1)
    loader = DataLoader(range(n), batch_size=256, sampler=sampler)
    with OrderedLoader(loader, SEEDED) as order:
        order.seek(epoch=3, cursor=256 * 200_000)
        first = next(iter(loader))
    assert first.equal(Order(n, 1, 3).ids(256 * 200_000, 256 * 200_001))


def test_a_peek_at_the_first_batch_is_no_epoch():
    loader = Case().loader()
    with OrderedLoader(loader, SEEDED) as order:
        peeked = rows(next(iter(loader)))
        assert rows(next(iter(loader))) == peeked
        assert order.epoch == 0
        ids(loader)
        ids(loader)
        assert order.epoch == 1


def test_leaving_an_epoch_early_begins_the_next():
    loader = Case().loader()
    with OrderedLoader(loader, SEEDED) as order:
        for _ in loader:
            order.commit()
            break
        ids(loader)
        assert order.epoch == 1


def test_a_named_epoch_is_the_one_that_is_given():
    loader = Case().loader()
    with OrderedLoader(loader, SEEDED) as order:
        epochs = [ids(loader) for _ in range(3)]
        order.set_epoch(1)
        assert ids(loader) == epochs[1]
        order.set_epoch(2)
        assert ids(loader) == epochs[2]


def test_a_loader_that_begins_with_its_first_batch_is_ordered_too():
    class Late(DataLoader):  # type: ignore[type-arg]
        def __iter__(self) -> Any:
            yield from super().__iter__()

    loader = Late(Augmented(), batch_size=BATCH, shuffle=True, collate_fn=as_rows)
    with OrderedLoader(loader, SEEDED) as order:
        before = RandomState.take()
        first = [rows(batch) for batch in loader]
        order.seek(epoch=0, cursor=BATCH)
        assert [rows(batch) for batch in loader] == first[1:]
        assert RandomState.take().same(before)
    with OrderedLoader(loader, USER) as order:
        batches = iter(loader)
        next(batches)
        order.commit()
        state, boundary = order.state_dict(), RandomState.take()
        rest = [rows(batch) for batch in batches]
        boundary.restore()
        order.load_state_dict(state)
        assert [rows(batch) for batch in loader] == rest


# -- states ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["user", "epoch_reseed", "fixed_order"])
def test_a_state_is_plain_and_small(policy):
    loader = Case().loader()
    with OrderedLoader(loader, OrderConfig(policy=policy, seed=2**62)) as order:
        order.set_epoch(10**9)
        for _ in loader:
            order.commit()
        text = json.dumps(order.state_dict(), allow_nan=False)
    assert len(text) <= 1024


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"policy": "fixed_order"}, "saved with policy"),
        ({"seed": 1}, "saved with seed 1"),
        ({"length": 11}, "saved with length 11"),
        ({"format": 2}, "format 2"),
    ],
)
def test_a_state_of_another_run_is_refused_with_the_field(changed, words):
    with OrderedLoader(Case().loader(), SEEDED) as order, pytest.raises(FormatError, match=words):
        order.load_state_dict(order.state_dict() | changed)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"cursor": 8, "checksum": 1}, "not those that were trained on"),
        ({"cursor": 3}, "inside a batch"),
        ({"cursor": 11}, "ends after 10"),
    ],
)
def test_a_place_that_is_not_in_the_order_is_refused_before_the_first_batch(changed, words):
    loader = Case().loader()
    with OrderedLoader(loader, SEEDED) as order:
        order.load_state_dict(order.state_dict() | changed)
        with pytest.raises(FormatError, match=words):
            next(iter(loader))


def test_a_changed_sampler_is_seen_before_the_first_batch():
    loader = Case().loader()
    with OrderedLoader(loader, SEEDED) as order:
        next(iter(loader))
        order.commit()
        state = order.state_dict()
    loader = DataLoader(Augmented(), batch_size=BATCH, collate_fn=as_rows)  # not shuffled
    with OrderedLoader(loader, SEEDED) as order:
        order.load_state_dict(state)
        with pytest.raises(FormatError, match="not those that were"):
            next(iter(loader))


def test_policy_user_asks_for_the_generators_of_the_epoch():
    loader = Case().loader()
    with OrderedLoader(loader, USER) as order:
        next(iter(loader))
        order.commit()
        state = order.state_dict()
    loader = Case().loader()
    with OrderedLoader(loader, USER) as order:
        order.load_state_dict(state)
        with pytest.raises(FormatError, match="load_random_state"):
            iter(loader)


def test_a_stream_with_another_worker_count_is_refused():
    with OrderedLoader(Case(sampler="iterable", workers=2).loader(), SEEDED) as order:
        state = order.state_dict()
    with (
        OrderedLoader(Case(sampler="iterable").loader(), SEEDED) as order,
        pytest.raises(FormatError, match="num_workers=2"),
    ):
        order.load_state_dict(state)


def test_a_step_ends_with_a_batch():
    loader = Case().loader()
    with OrderedLoader(loader, SEEDED) as order:
        next(iter(loader))
        with pytest.raises(ConfigError, match="were handed out"):
            order.commit(5)
        with pytest.raises(ConfigError, match="ends with a batch"):
            order.commit(3)


# -- what is refused before step 0 ----------------------------------------------------------------


class Counting:
    """A sampler with hidden state."""

    def __init__(self) -> None:
        self.calls = 0

    def __iter__(self) -> Iterator[int]:
        self.calls += 1
        return iter([self.calls % LENGTH])


class Lazy:
    """A sampler that draws from the global generators as it goes."""

    def __iter__(self) -> Iterator[int]:
        for _ in range(LENGTH):
            yield random.randrange(LENGTH)


class OwnGenerator(Augmented):
    def __init__(self) -> None:
        super().__init__()
        self.rng = np.random.default_rng(0)


class Stateless(IterableDataset):  # type: ignore[type-arg]
    def __iter__(self) -> Iterator[list[float]]:
        return iter([[float(index), *noise()] for index in range(LENGTH)])


REFUSED = {
    "hidden state": (lambda: DataLoader(Augmented(), sampler=Counting()), SEEDED, "keeps state"),
    "own generator": (lambda: DataLoader(OwnGenerator()), SEEDED, "Generator of its own"),
    "own generator, user": (lambda: DataLoader(OwnGenerator()), USER, "Generator of its own"),
    "stream": (lambda: DataLoader(Stateless()), SEEDED, "no state_dict"),
    "out of order": (
        lambda: DataLoader(Augmented(), num_workers=1, in_order=False),
        SEEDED,
        "in_order=False",
    ),
    "no loader": (lambda: [1, 2], SEEDED, "use a DataLoader"),
}


@pytest.mark.parametrize(("make", "config", "words"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_exact_is_refused_with_the_reason(make, config, words):
    with pytest.raises(ConfigError, match=words):
        OrderedLoader(make(), config)


@pytest.mark.parametrize("name", ["hidden state", "own generator", "stream"])
def test_without_enforcement_it_is_reported_once(name):
    make, _, words = REFUSED[name]
    config = OrderConfig(policy="epoch_reseed", seed=0, enforce_sampler_state=False)
    loader = make()
    with pytest.warns(UserWarning, match=words), OrderedLoader(loader, config) as order:
        list(loader)
    assert len(order.problems) == 1


@pytest.mark.parametrize("sampler", ["random", "iterable"])
def test_workers_that_augment_are_refused_under_policy_user_before_the_first_batch(sampler):
    loader = Case(sampler=sampler, workers=2).loader()
    with (
        OrderedLoader(loader, USER),
        pytest.raises(ConfigError, match="workers draw random numbers"),
    ):
        next(iter(loader))


@pytest.mark.parametrize("sampler", ["random", "iterable"])
def test_so_is_a_collate_function_that_draws_in_workers(sampler):
    loader = Case(sampler=sampler, workers=1, draws=False).loader()
    loader.collate_fn = as_rows
    with OrderedLoader(loader, USER), pytest.raises(ConfigError, match="workers draw"):
        next(iter(loader))


@pytest.mark.parametrize("workers", [0, 1])
def test_a_sampler_that_draws_in_turn_with_the_training_is_refused_under_policy_user(workers):
    loader = DataLoader(Augmented(draws=False), sampler=Lazy(), num_workers=workers)
    with OrderedLoader(loader, USER), pytest.raises(ConfigError, match="between batches"):
        list(loader)
    with OrderedLoader(loader, SEEDED):
        list(loader)


def test_a_sampler_with_hidden_state_is_seen_at_a_resume_under_policy_user():
    def loader(sampler: Counting) -> Any:
        return DataLoader(Augmented(), sampler=sampler)

    used = Counting()
    list(used)
    with OrderedLoader(first := loader(used), USER) as order:
        next(iter(first))
        order.commit()
        state, start = order.state_dict(), order.random_state()
    with OrderedLoader(second := loader(Counting()), USER) as order:
        order.load_random_state(start)
        order.load_state_dict(state)
        with pytest.raises(FormatError, match="keeps state of its own"):
            iter(second)


def test_a_stream_without_a_state_is_read_again_if_that_is_accepted():
    config = OrderConfig(policy="epoch_reseed", seed=0, enforce_sampler_state=False)
    loader = DataLoader(Stateless(), batch_size=BATCH, collate_fn=as_rows)
    with OrderedLoader(loader, config, report=lambda _text: None) as order:
        batches = iter(loader)
        first = [next(batches)]
        order.commit()
        state = order.state_dict()
        first += list(batches)
    with OrderedLoader(loader, config, report=lambda _text: None) as order:
        order.load_state_dict(state)
        assert list(loader) == first[1:]


def test_a_policy_needs_a_seed_and_a_known_name():
    with pytest.raises(ConfigError, match="needs a seed"):
        OrderConfig(policy="fixed_order")
    with pytest.raises(ConfigError, match="'epoch_reseed'"):
        OrderConfig(policy="shuffled")


def test_one_loader_has_one_policy_at_a_time():
    loader = Case().loader()
    with OrderedLoader(loader, SEEDED), pytest.raises(ConfigError, match="attached already"):
        OrderedLoader(loader, USER)


# -- several ranks --------------------------------------------------------------------------------


def _rank(rank: int, meeting: str, results: Any) -> None:
    """One process of two: an epoch, a kill, the rest; what both saw is gathered by gloo."""
    torch.distributed.init_process_group("gloo", init_method=meeting, rank=rank, world_size=2)
    data = Augmented(22)
    mine: list[Any] = []
    state: dict[str, Any] = {}
    for attempt in range(2):
        loader = DataLoader(
            data, batch_size=BATCH, sampler=DistributedSampler(data), collate_fn=as_rows
        )
        with OrderedLoader(loader, SEEDED) as order:
            if attempt:
                order.load_state_dict(state)
            for epoch in range(order.epoch, 2):
                order.set_epoch(epoch)
                for batch in loader:
                    mine.append((order.epoch, rows(batch)))
                    order.commit()
                    if not attempt and len(mine) == 2:
                        break
                if not attempt:
                    break
            state = order.state_dict()
    both: list[Any] = [None, None]
    torch.distributed.all_gather_object(both, mine)
    if rank == 0:
        results.put(both)
    torch.distributed.destroy_process_group()


def test_two_ranks_share_the_samples_and_resume_together(tmp_path):
    context = torch.multiprocessing.get_context("fork")
    results = context.Queue()
    meeting = f"file://{tmp_path / 'meeting'}"
    ranks = [context.Process(target=_rank, args=(rank, meeting, results)) for rank in range(2)]
    for process in ranks:
        process.start()
    both = results.get(timeout=60)
    for process in ranks:
        process.join(60)
        assert process.exitcode == 0
    results.close()
    results.join_thread()
    orders = []
    for epoch in range(2):
        seen = [int(row[0]) for mine in both for at, batch in mine if at == epoch for row in batch]
        assert sorted(seen) == list(range(22))
        orders.append(seen)
    assert orders[0] != orders[1]


def test_pairs_is_a_batch_sampler_of_every_sample():
    assert sorted(chain(*Pairs())) == list(range(LENGTH))
    assert [row[0] for row in Stream(draws=False)] == list(range(LENGTH))

"""Batches made ahead by several threads: in order, each in a buffer of its own, errors in place."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch

from midstep.core.errors import DatasetError
from midstep.data import JASPERSteeringDataset, create_loader
from midstep.data.steering.loaded_tables import RowTable
from midstep.data.steering.prefetch import BufferRing, prefetch

PATIENCE_S = 30.0


def test_items_come_in_order_although_later_ones_are_ready_first() -> None:
    second_is_done = threading.Event()

    def first() -> int:
        assert second_is_done.wait(PATIENCE_S)
        return 1

    def second() -> int:
        second_is_done.set()
        return 2

    assert list(prefetch(iter([first, second, lambda: 3]), threads=2)) == [1, 2, 3]


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("count", [0, 1, 2, 3, 40])
def test_nothing_is_lost_or_doubled(threads: int, count: int) -> None:
    calls = [lambda number=number: number for number in range(count)]
    assert list(prefetch(iter(calls), threads=threads)) == list(range(count))


def broken_source() -> Iterator[Callable[[], int]]:
    yield lambda: 1
    raise RuntimeError("planted in the source")


def broken_call() -> Iterator[Callable[[], int]]:
    yield lambda: 1
    yield lambda: int("planted in a call")
    yield lambda: 3


@pytest.mark.parametrize("source", [broken_source, broken_call])
def test_an_error_comes_out_where_its_item_would(source) -> None:
    for _ in range(20):  # whichever thread is first
        items = prefetch(source(), threads=2)
        assert next(items) == 1
        with pytest.raises((RuntimeError, ValueError), match="planted"):
            next(items)


def test_threads_end_with_the_pass(folder: Path) -> None:
    for _ in create_loader(folder, "train", 8):
        names = [thread.name for thread in threading.enumerate()]
        assert any(name.startswith("midstep-prefetch") for name in names)
        break
    left = [
        thread.name for thread in threading.enumerate() if thread.name.startswith("midstep-pre")
    ]
    assert left == []


def test_threads_never_share_a_buffer() -> None:
    ring = BufferRing(64, 8)

    def use(number: int) -> bool:
        taken = ring.take()
        taken[:] = number
        return bool((taken == number).all())

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(use, range(2000)))


def test_many_passes_at_once_give_what_one_gives(folder: Path) -> None:
    dataset = JASPERSteeringDataset(folder)
    expected = [batch["negative_embs"].clone() for batch in create_loader(dataset, "train", 8)]
    loaders = [create_loader(dataset.for_split("train"), "train", 8) for _ in range(3)]
    for batches in zip(expected, *loaders, strict=True):
        for batch in batches[1:]:
            assert torch.equal(batch["negative_embs"], batches[0])


def test_gather_equals_torchs_own() -> None:
    chance = np.random.default_rng(0)
    array = chance.standard_normal((50, 7)).astype(np.float32)
    ids = torch.from_numpy(chance.integers(50, size=33))
    found = RowTable(array).gather(ids, torch.empty(33, 7))
    assert torch.equal(found, torch.index_select(torch.from_numpy(array), 0, ids))


@pytest.mark.parametrize(
    ("name", "at", "value", "what"),
    [
        ("hard_negatives", (3, 1), 40, "the negative 40, expected 0 to 39"),
        ("pair_index", (3, 0), -1, "the question -1, expected 0 to 24"),
        ("pair_index", (3, 1), 400, "the source 400, expected 0 to 39"),
    ],
)
def test_wrong_ids_are_refused_also_where_nothing_was_verified(
    folder: Path, tmp_path: Path, name: str, at: tuple[int, int], value: int, what: str
) -> None:
    copy = shutil.copytree(folder, tmp_path / "copy")
    table = np.load(copy / f"{name}.npy")
    table[at] = value
    np.save(copy / f"{name}.npy", table)
    dataset = JASPERSteeringDataset(copy, verify=False)
    split = next(
        split
        for split in ("train", "val", "test")
        if at[0] in dataset.for_split(split).pair_ids.tolist()
    )
    everything = dataset.for_split(split)
    with pytest.raises(DatasetError, match=what):
        everything.batch(range(len(everything)))

"""Batches that wait for their forward passes: found again by memory or age, and not kept alive."""

from __future__ import annotations

import gc
import weakref
from types import SimpleNamespace

import torch

from midstep.live.script.fetched_batches import FetchedBatches


class Iterator:
    """Stands in for the iterator of a DataLoader."""

    _index_sampler = None


class Graph:
    """A batch that is no tensor and no collection."""


def test_only_the_newest_batch_is_kept_alive():
    iterator, fetched = Iterator(), FetchedBatches()
    made = [[torch.ones(2)], {"x": torch.ones(2), "name": "a"}, Graph(), (torch.ones(2), Graph())]
    parts = [made[0][0], made[1]["x"], made[2], made[3][0]]
    references = [weakref.ref(part) for part in parts]
    for batch in made:
        fetched.add(iterator, batch)
    del made, parts, batch
    gc.collect()
    assert [reference() is None for reference in references] == [True, True, True, False]
    assert fetched.take(torch.ones(2)) is None  # the oldest one is no more


def test_a_batch_is_found_by_shared_memory_and_else_by_age():
    iterator, fetched = Iterator(), FetchedBatches()
    batches = [(torch.full((3,), float(n)), torch.arange(3)) for n in range(4)]
    for batch in batches[:3]:
        fetched.add(iterator, batch)
    assert fetched.take(batches[1][0].view(1, 3))[1] is batches[1][1]  # and the first was skipped
    assert fetched.take(batches[2][0] + 1) is None  # none was fetched since
    fetched.add(iterator, batches[3])
    assert fetched.take(batches[2][0] + 1)[1] is batches[2][1]
    fetched.end_pass(iterator)
    assert fetched.take(batches[3][0] + 1)[1] is batches[3][1]
    assert not fetched.any


def test_a_batch_of_another_size_or_without_memory_is_not_taken():
    iterator, fetched = Iterator(), FetchedBatches()
    batches = [torch.eye(3).to_sparse(), torch.eye(3).to_sparse(), torch.ones(3)]
    for batch in batches:
        fetched.add(iterator, batch)
    assert fetched.take(torch.ones(7)) is None


def test_of_two_loaders_the_first_counts_until_its_pass_is_over():
    first, second, fetched = Iterator(), Iterator(), FetchedBatches()
    second._index_sampler = SimpleNamespace()
    fetched.add(first, [1])
    fetched.add(second, [2])
    assert (fetched.take(None), fetched.any) == ([1], False)
    fetched.add(first, [3])
    del first
    fetched.add(second, [4])
    assert fetched.order == id(second._index_sampler)
    assert fetched.take(None) == [4]

"""Micro-batches of one step: what is kept of them, and how they are shown as one."""

from __future__ import annotations

import pytest
import torch

from midstep.data.batch_structure import count_samples, join, labels_of
from midstep.live.loop.window import SAMPLES_KEPT, Window

PAIR = (torch.zeros(3, 2), torch.arange(3))


def test_tensors_tuples_and_mappings_join_by_row():
    assert join([torch.zeros(2, 3), torch.ones(1, 3)]).shape == (3, 3)
    x, y = join([PAIR, PAIR])
    assert (x.shape, y.tolist()) == ((6, 2), [0, 1, 2, 0, 1, 2])
    joined = join([{"x": torch.zeros(2), "name": ["a", "b"]}, {"x": torch.ones(1), "name": ["c"]}])
    assert joined["x"].tolist() == [0, 0, 1]
    assert joined["name"] == ["a", "b", "c"]


def test_a_single_batch_is_passed_on_as_it_is():
    assert join([PAIR]) is PAIR


@pytest.mark.parametrize(
    "ragged",
    [
        [torch.zeros(2, 3), torch.zeros(2, 4)],
        [{"a": torch.zeros(1)}, {"b": torch.zeros(1)}],
        [(torch.zeros(1),), (torch.zeros(1), torch.zeros(1))],
    ],
    ids=["shapes", "keys", "lengths"],
)
def test_batches_that_do_not_fit_together_show_the_first(ragged):
    assert join(ragged) is ragged[0]


def test_samples_are_counted_by_the_first_tensor():
    assert count_samples(PAIR) == 3
    assert count_samples({"name": ["a"], "x": torch.zeros(4, 1)}) == 4
    assert count_samples(torch.tensor(1.0)) is None
    assert count_samples("text") is None


def test_labels_are_the_second_of_a_pair_or_an_entry_named_so():
    assert labels_of(PAIR) is PAIR[1]
    assert labels_of({"x": PAIR[0], "target": PAIR[1]}) is PAIR[1]
    assert labels_of([PAIR[0], torch.zeros(3, 2)]) is None  # a picture is no label
    assert labels_of([PAIR[0], torch.zeros(2)]) is None  # one per sample, or none
    assert labels_of(PAIR[0]) is None


def test_a_window_keeps_every_id_but_only_as_many_batches_as_are_shown():
    window = Window()
    for start in range(0, 1024, 64):
        window.add(torch.zeros(64, 1), range(start, start + 64))
    assert window.ids == list(range(1024))
    assert sum(len(batch) for batch in window.batches) == SAMPLES_KEPT
    assert window.count == 16


def test_a_window_holds_on_to_one_batch_when_they_are_large():
    window = Window()
    for _ in range(3):
        window.add(torch.zeros(2, 4 * 2**20), None)
    assert len(window.batches) == 1
    assert window.ids is None


def test_the_loss_is_the_logged_one_else_the_mean_over_micro_batches():
    window = Window()
    for value in (1.0, 3.0):
        window.add(PAIR, None)
        window.note_loss(torch.tensor(100.0))  # replaced by the last one for the same batch
        window.note_loss(torch.tensor(value))
    assert window.loss().item() == 2.0
    window.scalars["loss"] = 7.0
    assert window.loss() == 7.0
    assert Window().loss() is None

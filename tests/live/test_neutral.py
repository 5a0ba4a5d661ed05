"""Looked at or not: identical batches, losses and weights, by attach and by two call sites."""

from __future__ import annotations

import pytest
import torch

from midstep.explore.sample_losses import DRAWS
from tests.checkers.neutral import (
    CONDITIONS,
    assert_neutral,
    attached,
    two_calls,
    with_hooks,
    with_media,
    with_view,
)
from tests.checkers.trainings import conv_net, net_with_loss, small_transformer

RANDOM = f"The losses of single samples are not known: {DRAWS}."
WAYS = {"attach": attached, "two calls": two_calls}
TRAININGS = {"conv net": conv_net, "transformer": small_transformer}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())
@pytest.mark.parametrize("training", TRAININGS.values(), ids=TRAININGS.keys())
@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_training_that_is_looked_at_stays_the_same(training, way, condition, tmp_path):
    assert_neutral(training, way, tmp_path, {condition: CONDITIONS[condition]})


@pytest.mark.parametrize("training", TRAININGS.values(), ids=TRAININGS.keys())
@pytest.mark.parametrize("condition", ["attached", "stepped", "watched", "breakpoint", "page"])
def test_a_training_with_every_hook_and_rule_stays_the_same(training, condition, tmp_path):
    assert_neutral(training, with_hooks, tmp_path, {condition: CONDITIONS[condition]})


def test_a_training_that_logs_media_stays_the_same(tmp_path):
    conditions = {name: CONDITIONS[name] for name in ("attached", "stepped")}
    assert_neutral(conv_net, with_media, tmp_path, conditions)


@pytest.mark.parametrize("training", TRAININGS.values(), ids=TRAININGS.keys())
def test_a_training_with_a_view_of_its_samples_stays_the_same(training, tmp_path):
    conditions = {name: CONDITIONS[name] for name in ("attached", "subscribed")}
    assert_neutral(training, with_view, tmp_path, conditions)


@pytest.mark.parametrize(
    ("training", "condition"),
    [(conv_net, "stepped"), (net_with_loss, "stepped"), (net_with_loss, "subscribed")],
)
def test_a_training_whose_losses_of_samples_are_computed_stays_the_same(
    training, condition, tmp_path
):
    def with_losses(training, trace, scene):
        attached(training, trace, scene)
        shown = scene.controller.captures.cloned_batch.samples(0, 8)
        if condition == "stepped":  # else perhaps too soon after the step before
            assert shown.loss_note == (None if training.criterion is None else RANDOM)
            assert (shown.losses is None) == (shown.loss_note is not None)

    assert_neutral(training, with_losses, tmp_path, {condition: CONDITIONS[condition]})


@pytest.mark.parametrize(
    "workers", [{"num_workers": 2}, {"num_workers": 2, "persistent_workers": True}], ids=str
)
def test_a_training_with_workers_stays_the_same(workers, tmp_path):
    conditions = {name: CONDITIONS[name] for name in ("attached", "stepped")}
    assert_neutral(lambda: conv_net(**workers), attached, tmp_path, conditions)


def test_the_checker_sees_one_extra_random_number(tmp_path):
    def meddling(training, trace, scene):
        torch.rand(())
        attached(training, trace, scene)

    with pytest.raises(AssertionError, match="attached: other"):
        assert_neutral(conv_net, meddling, tmp_path, {"attached": CONDITIONS["attached"]})

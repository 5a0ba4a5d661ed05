"""Loaders at the edge: empty, one sample, a partial last batch, ended early, losses not finite."""

from __future__ import annotations

import itertools
import math

import pytest

from midstep.facts import FactsReader, end_state
from midstep.live import attach
from tests.live.trainer import Plain


@pytest.mark.parametrize(("count", "steps"), [(0, 0), (1, 2), (5, 4), (24, 12)])
def test_every_batch_there_is_makes_a_step_and_the_run_finishes(tmp_path, count, steps):
    plain = Plain(count, shuffle=False)
    with attach(*plain.parts, save_dir=tmp_path) as run:
        plain.train(run, epochs=2)
    assert run.step == steps
    assert end_state(run.dir).state == "finished"
    assert FactsReader(run.dir).problems == []


def test_a_loader_that_ends_early_ends_its_epoch(tmp_path):
    plain = Plain()
    with attach(*plain.parts, save_dir=tmp_path) as run:
        for _ in run.epochs(2):
            for x, _y in itertools.islice(plain.loader, 2):
                run.log(loss=plain.step(x))
    ends = [each for each in FactsReader(run.dir).events() if each["moment"] == "on_epoch_end"]
    assert [end["step"] for end in ends] == [2, 4]


@pytest.mark.parametrize("loss", [math.nan, math.inf, -math.inf])
def test_losses_that_are_not_finite_are_kept_as_they_are(tmp_path, loss):
    plain = Plain()
    with attach(*plain.parts, save_dir=tmp_path) as run:
        for _ in run.epochs(1):
            for x, _y in plain.loader:
                plain.step(x)
                run.log(loss=loss)
    kept = FactsReader(run.dir).series(["loss"])["loss"].low
    assert [str(value) for value in kept.tolist()] == [str(loss)] * 6
    assert end_state(run.dir).state == "finished"

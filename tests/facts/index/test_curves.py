"""Curves of runs against slow twins: every point, every bucket, every axis."""

from __future__ import annotations

import math
import os
import random
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from midstep.facts import FactsTail, FactsWriter, StepRows
from midstep.facts.index.curves import CurveCache, epoch_axis
from midstep.facts.index.epoch_history import EpochHistory
from midstep.facts.index.run_index import RunIndex
from midstep.facts.read.series import downsample
from tests.facts.stored_runs import write_run


@pytest.fixture(autouse=True)
def fast_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """None of these tests is about power cuts."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


def slow_points(folder: Path, name: str) -> list[tuple[int, float, float]]:
    """(step, wall, value): of each step the row of the highest timeline, then number."""
    best: dict[int, tuple[int, int, float, float]] = {}
    for rows in FactsTail(folder).poll():
        if isinstance(rows, StepRows) and name in rows.columns:
            for place, step in enumerate(rows.step.tolist()):
                row = (
                    rows.timeline,
                    rows.first_seq + place,
                    float(rows.wall[place]),
                    float(rows.columns[name][place]),
                )
                best[step] = max(best.get(step, row), row)
    return [(step, best[step][2], best[step][3]) for step in sorted(best)]


def slow_buckets(values: list[float], points: int) -> list[tuple[float, float]]:
    """Lowest and highest of each of `points` stretches of nearly equal length, NaN aside."""
    edges = [len(values) * place // points for place in range(points)] + [len(values)]
    found = []
    for start, stop in pairwise(edges):
        real = [value for value in values[start:stop] if not math.isnan(value)]
        found.append((min(real), max(real)) if real else (math.nan, math.nan))
    return found


@pytest.mark.usefixtures("no_slow_writes")
@pytest.mark.parametrize("seed", range(3))
def test_a_curve_has_every_point_of_a_run_that_was_taken_back_and_taken_up(tmp_path: Path, seed):
    chance, cache = random.Random(seed), CurveCache()
    step = 0
    for attempt in (1, 2):
        with FactsWriter(tmp_path, attempt=attempt) as facts:
            for _ in range(60):
                step += 1
                facts.log(step, loss=chance.random(), lr=0.1)
                if chance.random() < 0.3:
                    facts.log(step, other=chance.random())
                if chance.random() < 0.1:
                    step = max(0, step - chance.randrange(20))
                    facts.timeline += 1
                if chance.random() < 0.1:
                    assert drawn(cache, tmp_path, "loss") == slow_points(tmp_path, "loss")
    assert drawn(cache, tmp_path, "other") == slow_points(tmp_path, "other")


def drawn(cache: CurveCache, folder: Path, name: str) -> list[tuple[int, float, float]]:
    by_step = cache.curve(folder, name, x="step", points=10**6, began_at=0.0, epochs=EpochHistory)
    by_time = cache.curve(folder, name, x="time", points=10**6, began_at=0.0, epochs=EpochHistory)
    if by_step is None or by_time is None:
        return []
    wall = dict(zip(by_step.x.tolist(), walls(folder, name), strict=True))
    assert by_time.x.tolist() == np.maximum.accumulate(list(wall.values())).tolist()
    return [
        (int(step), wall[step], value)
        for step, value in zip(by_step.x.tolist(), by_step.low.tolist(), strict=True)
    ]


def walls(folder: Path, name: str) -> list[float]:
    return [wall for _, wall, _ in slow_points(folder, name)]


@pytest.mark.parametrize("count", [0, 1, 9, 10, 11, 1000, 1003])
@pytest.mark.parametrize("points", [2, 7, 10])
def test_buckets_hold_the_lowest_and_highest_of_their_points(count: int, points: int):
    values = np.random.default_rng(count).normal(size=count)
    values[values > 1.0] = np.nan
    found = downsample(np.arange(count, dtype=np.float64), values, points)
    assert found.count == count
    if count <= points:
        assert found.exact
        assert found.low.tolist() == pytest.approx(values.tolist(), nan_ok=True)
        return
    expected = slow_buckets(values.tolist(), points)
    assert found.low.tolist() == pytest.approx([low for low, _ in expected], nan_ok=True)
    assert found.high.tolist() == pytest.approx([high for _, high in expected], nan_ok=True)
    assert len(found.x) == points


def test_no_spike_of_a_long_run_is_lost(tmp_path: Path):
    with FactsWriter(tmp_path / "a") as facts:
        for step in range(5000):
            facts.log(step, loss=1e6 if step == 3333 else 1.0)
    index = RunIndex(tmp_path, "memory")
    index.refresh()
    (curve,) = index.curves([index.rows().rows[0].id], "loss", points=50).values()
    assert (len(curve.x), float(curve.high.max()), curve.count) == (50, 1e6, 5000)


def test_epochs_are_counted_between_and_behind_their_ends():
    history = EpochHistory()
    for epoch, step in enumerate([10, 30, 60]):
        place = {"epoch": epoch, "timeline": 0, "step": step, "wall": 0.0}
        history.add(place, {"loss": 1.0})
    found = epoch_axis(np.array([0.0, 5, 10, 20, 30, 60, 75]), history)
    assert found.tolist() == [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 3.5]
    assert np.isnan(epoch_axis(np.array([1.0]), EpochHistory())).all()


def test_an_epoch_of_a_higher_timeline_replaces_the_one_before():
    history = EpochHistory()
    first = {"epoch": 0, "timeline": 0, "step": 5, "wall": 1.0}
    history.add(first, {"val_loss": 1.0, "accuracy": 0.5})
    history.add(first, {"train_loss": 2.0})
    assert history.points("accuracy") == ([5.0], [1.0], [0.5])
    history.add({**first, "timeline": 1, "wall": 2.0}, {"val_loss": 3.0})
    history.add(first, {"val_loss": 9.0})
    assert history.points("val_loss") == ([5.0], [2.0], [3.0])
    assert history.points("accuracy") == ([], [], [])
    packed = EpochHistory.unpack(history.pack())
    assert packed.points("val_loss") == history.points("val_loss")


def test_histories_go_on_where_they_were_read_and_survive_a_restart(tmp_path: Path):
    root, cache = tmp_path / "runs", tmp_path / "index.sqlite"
    run = write_run(root / "a", epochs=3, end=None)
    index = RunIndex(root, cache)
    index.refresh()
    assert index.histories()[run].points("val_loss")[2] == [1.0, 0.5, 1 / 3]
    with FactsWriter(root / "a", attempt=1) as facts:
        facts.event("on_epoch_end", epoch=3, step=20, val_loss=0.1)
    index.refresh()
    assert index.histories()[run].points("val_loss")[2] == [1.0, 0.5, 1 / 3, 0.1]
    index.close()
    again = RunIndex(root, cache)
    again.refresh()
    assert again.histories([run])[run].points("val_loss")[2] == [1.0, 0.5, 1 / 3, 0.1]
    (root / "a" / "facts" / "events.jsonl").unlink()
    again.refresh()
    assert [len(history) for history in again.histories().values()] == [0]
    assert again.rows().rows[0].state == "lost"


def test_points_beyond_the_memory_are_let_go_and_read_again(tmp_path: Path):
    for name in "abc":
        write_run(tmp_path / name, epochs=20)
    cache = CurveCache(most_bytes=5000)
    for _ in range(2):
        for name in "abc":
            curve = cache.curve(
                tmp_path / name, "loss", x="step", points=10**6, began_at=None, epochs=EpochHistory
            )
            assert curve is not None
            assert curve.count == 100
    assert cache._held_bytes() <= 5000

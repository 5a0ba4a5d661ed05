"""Series of scalars: exact points, buckets, ranges, rewound steps."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from midstep.core.errors import ConfigError
from midstep.facts import (
    FactsWriter,
    SeriesStore,
)

# -- series ----------------------------------------------------------------------------------------


def test_series_are_exact_up_to_the_asked_points_and_buckets_beyond(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=5000)
    with FactsWriter(tmp_path) as facts:
        for step, value in enumerate(values.tolist()):
            facts.log(step, loss=value)
    store = SeriesStore(tmp_path)
    assert store.refresh()
    assert not store.refresh()
    exact = store.series("loss", points=5000)
    assert exact.exact
    assert np.array_equal(exact.low, values)
    thin = store.series("loss", points=64)
    assert (thin.exact, thin.count, len(thin.step)) == (False, 5000, 64)
    assert thin.low.min() == values.min()
    assert thin.high.max() == values.max()
    for index, (first, last) in enumerate(zip(thin.step, [*thin.step[1:], 5000], strict=True)):
        assert thin.low[index] == values[first:last].min()
        assert thin.high[index] == values[first:last].max()


def test_a_range_of_steps_can_be_asked_for(tmp_path: Path) -> None:
    with FactsWriter(tmp_path) as facts:
        for step in range(0, 100, 10):
            facts.log(step, loss=float(step))
    store = SeriesStore(tmp_path)
    store.refresh()
    assert store.series("loss", start=15, stop=40).step.tolist() == [20, 30]


def test_of_a_step_written_twice_the_highest_timeline_counts_then_the_last(tmp_path: Path) -> None:
    with FactsWriter(tmp_path) as facts:
        for step in range(5):
            facts.log(step, loss=0.0)
        facts.timeline = 1
        for step in range(2, 4):
            facts.log(step, loss=1.0, lr=0.1)
        facts.timeline = 0
        facts.log(3, loss=9.0)
        facts.log(4, loss=4.0)
    store = SeriesStore(tmp_path)
    store.refresh()
    found = store.series("loss")
    assert found.step.tolist() == [0, 1, 2, 3, 4]
    assert found.low.tolist() == [0.0, 0.0, 1.0, 1.0, 4.0]
    assert (store.timeline, store.seq) == (1, 9)


def test_a_store_refreshed_while_written_equals_one_read_afterwards(tmp_path: Path) -> None:
    store = SeriesStore(tmp_path)
    with FactsWriter(tmp_path) as facts:
        for step in range(400):
            facts.log_values(step % 150, {f"loss{step % 3}": float(step), "lr": 0.1})
            if step % 37 == 0:
                store.refresh()
    store.refresh()
    fresh = SeriesStore(tmp_path)
    fresh.refresh()
    assert sorted(store.names) == sorted(fresh.names)
    for name in store.names:
        assert np.array_equal(store.series(name).low, fresh.series(name).low)


def test_nan_in_a_bucket_hides_nothing_else(tmp_path: Path) -> None:
    with FactsWriter(tmp_path) as facts:
        for step in range(10):
            facts.log(step, loss=float("nan") if step != 3 else 5.0)
    store = SeriesStore(tmp_path)
    store.refresh()
    thin = store.series("loss", points=2)
    assert (thin.low[0], thin.high[0]) == (5.0, 5.0)
    assert np.isnan(thin.low[1])


def test_an_unknown_series_names_those_there_are(tmp_path: Path) -> None:
    with FactsWriter(tmp_path) as facts:
        facts.log(1, loss=1.0)
    store = SeriesStore(tmp_path)
    store.refresh()
    with pytest.raises(ConfigError, match="it has loss"):
        store.series("los")

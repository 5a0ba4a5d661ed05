"""A store with a bounded number of rows: flat in memory, no spike lost, exact where it is asked."""

from __future__ import annotations

import numpy as np
import pytest

from midstep.facts import FactsWriter, SeriesStore

ROWS = 512


def written(folder, steps, *, spike=None, timeline=0, first=1):
    with FactsWriter(folder, timeline=timeline, attempt=timeline + 1) as facts:
        for step in range(first, steps + 1):
            facts.log(step, loss=1000.0 if step == spike else float(step % 7), lr=0.1)


@pytest.fixture
def stores(tmp_path, no_slow_writes):
    written(tmp_path, 20_000, spike=777)
    bounded, whole = SeriesStore(tmp_path, most_rows=ROWS), SeriesStore(tmp_path)
    bounded.refresh()
    whole.refresh()
    return bounded, whole


def test_a_bounded_store_is_small_and_counts_every_row(stores):
    bounded, whole = stores
    assert bounded.bytes < whole.bytes / 20
    overview = bounded.series("loss", points=100)
    assert (overview.count, overview.exact, len(overview.x)) == (20_000, False, 100)
    assert (overview.x[0], overview.x[-1] > 19_000) == (1, True)


def test_no_spike_is_lost_and_steps_are_spread_evenly(stores):
    bounded, _ = stores
    overview = bounded.series("loss", points=100)
    assert overview.high.max() == 1000.0
    assert overview.low.min() == 0.0
    at = int(overview.high.argmax())
    assert overview.x[at] <= 777 < overview.x[at + 2]
    assert np.diff(overview.x[:80]).max() < 1500


@pytest.mark.parametrize(
    "window", [{"start": 770, "stop": 790}, {"start": 19_950}, {"stop": 30}, {"points": 30_000}]
)
def test_a_part_is_exact_also_if_it_is_not_kept(stores, window):
    bounded, whole = stores
    part, expected = bounded.series("loss", **window), whole.series("loss", **window)
    assert part.exact
    assert part.x.tolist() == expected.x.tolist()
    assert part.low.tolist() == expected.low.tolist()


def test_what_was_read_for_one_request_is_forgotten(stores):
    bounded, _ = stores
    bounded.series("loss", start=1, stop=5)
    assert bounded._from_disk is not None
    bounded.forget_rows()
    assert bounded._from_disk is None


def test_rows_that_a_rewind_took_back_are_not_shown(tmp_path, no_slow_writes):
    written(tmp_path, 3_000)
    with FactsWriter(tmp_path, timeline=1, attempt=2) as facts:
        for step in range(1_000, 3_001):
            facts.log(step, loss=-1.0, lr=0.1)
    bounded = SeriesStore(tmp_path, most_rows=ROWS)
    bounded.refresh()
    series = bounded.series("loss", points=200)
    later = series.x > 1_100
    assert later.any()
    assert set(series.low[later].tolist()) == {-1.0}
    assert set(series.high[later].tolist()) == {-1.0}
    assert series.high[series.x < 900].max() == 6.0


def test_very_many_rows_end_in_a_bounded_table(tmp_path):
    """Blocks as a reader gives them, as many as 40 million steps would make."""
    from midstep.facts.read.row_table import RowTable
    from midstep.facts.read.step_columns import row_dtype

    table = RowTable(("loss",), only=None, with_wall=False, most_rows=64)
    rows = np.zeros(50, row_dtype(1))
    for block in range(4_000):
        rows["step"] = block * 50 + np.arange(1, 51)
        rows["values"] = block
        table.append(rows, 10**9)
    assert table.size <= 64
    assert table.size + table.left_out == 200_000
    assert table.points("loss").value.max() == 3_999

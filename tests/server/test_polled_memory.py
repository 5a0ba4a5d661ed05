"""A training that is polled by its page does not grow with its steps."""

from __future__ import annotations

import gc
import tracemalloc

from midstep.server.runs.live_run import LiveRunView
from midstep.server.runs.run_catalog import LiveCatalog
from midstep.server.runs.run_table import RunTable
from midstep.session import Run

STEPS, POLL_EVERY = 20_000, 500
MOST_BYTES_A_STEP = 16
"""The scalars of a step took 160 bytes of memory."""


def test_a_polled_training_keeps_a_bounded_number_of_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(LiveRunView, "most_rows", 2_048)
    monkeypatch.setattr("midstep.server.runs.run_catalog.MOST_ROWS", 2_048)
    with Run(name="polled", save_dir=tmp_path) as run:
        table = RunTable()
        view, catalog = table.add(run), LiveCatalog(table)
        run.controller.boundary.enter()
        tracemalloc.start()
        try:
            sizes = [_polled(run, view, catalog, STEPS // 2) for _ in range(2)]
        finally:
            tracemalloc.stop()
        assert (sizes[1] - sizes[0]) / (STEPS // 2) < MOST_BYTES_A_STEP


def _polled(run: Run, view: LiveRunView, catalog: LiveCatalog, steps: int) -> int:
    """Train so many steps, polled all the time; gives the bytes in use afterwards."""
    for step in range(1, steps + 1):
        run.log(loss=1.0, lr=0.1, grad_norm=2.0, accuracy=0.5)
        run.controller.wait_if_paused()
        if step % POLL_EVERY == 0:
            view.with_series(lambda store: [store.series(name) for name in store.names])
            view.state()
            view.with_facts(lambda facts: facts.events(0, 100))
            catalog.row(run.run_id)
            catalog.curves([run.run_id], "loss", x="step", points=500)
    gc.collect()
    return tracemalloc.get_traced_memory()[0]

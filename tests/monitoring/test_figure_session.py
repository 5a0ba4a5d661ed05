"""Figures of a run in training: from its tail, off the training thread, within a share of time."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

import pytest

from midstep.core.errors import ConfigError
from midstep.facts import FactsReader, FactsWriter
from midstep.monitoring import (
    FigureSession,
    LoggingConfig,
    PlotFamily,
    draw_run_figures,
    register_family,
)
from midstep.monitoring.family_registry import unregister_family
from tests.monitoring.drawn_runs import ALL, epoch_record, figures_of, stored_run, write_epochs

CONFIG = LoggingConfig(moments=("on_epoch_end", "on_train_end"), dpi=30)
LONG_S = 30


def wait_for(condition):
    """Wait until `condition()` holds."""
    until = time.monotonic() + LONG_S
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_live_and_later_pictures_are_the_same_pixels(tmp_path):
    config = replace(CONFIG, families=("losses", "recon"))
    with FactsWriter(tmp_path) as facts:
        with FigureSession(tmp_path, config, ALL, facts.event, share=100.0) as figures:

            def drawn(epoch):
                figures.on_epoch_end()
                wait_for(lambda: figures.counts.drawn_epochs[-1:] == [epoch])

            write_epochs(facts, 2, after=drawn)
        facts.event("on_train_end", status="finished")
    live = figures_of(tmp_path)
    assert figures.counts.drawn_epochs == [0, 1]
    assert len(live) == figures.counts.files == 2 * 2 + 2
    for path in (tmp_path / "figures").iterdir():
        path.unlink()
    draw_run_figures(tmp_path, config, epoch=0)
    draw_run_figures(tmp_path, config)
    assert figures_of(tmp_path) == live


def test_short_epochs_are_thinned_and_the_last_is_always_drawn(tmp_path):
    # The share allows no figure before the end, however slow the machine is.
    with (
        FactsWriter(tmp_path) as facts,
        FigureSession(tmp_path, CONFIG, ["losses"], share=1e-6) as figures,
    ):
        write_epochs(facts, 20, after=lambda _: figures.on_epoch_end())
    assert figures.counts.drawn_epochs == [19]
    assert figures.counts.end_cost_s > 0
    assert set(figures_of(tmp_path)) == {
        "losses-on_epoch_end-e019.png",
        "losses-on_train_end-e019.png",
    }


def test_a_failing_family_is_counted_recorded_and_stops_nothing(tmp_path):
    drawn_in = []

    def fails(moment, payload, cfg):
        drawn_in.append(threading.current_thread().name)
        raise RuntimeError("no data")

    register_family(PlotFamily(name="broken", handle=fails))
    try:
        config = replace(CONFIG, families=("broken", "losses"))
        with (
            FactsWriter(tmp_path) as facts,
            FigureSession(tmp_path, config, ["broken", "losses"], facts.event) as figures,
        ):
            write_epochs(facts, 1)
    finally:
        unregister_family("broken")
    assert figures.counts.failures == {"broken": 2}
    assert set(drawn_in) == {"midstep-figures"}
    notes = [
        event for event in FactsReader(tmp_path).events() if event.get("kind") == "figure_failed"
    ]
    assert [(note["family"], note["times"]) for note in notes] == [("broken", 1), ("broken", 2)]
    assert notes[0]["error"] == "RuntimeError: no data"
    assert len(figures_of(tmp_path)) == 2


def test_a_resumed_run_continues_the_histories_of_the_first_attempt(tmp_path):
    stored_run(tmp_path / "whole", 3)
    draw_run_figures(tmp_path / "whole", replace(CONFIG, families=("losses",)))
    run = stored_run(tmp_path / "resumed", 2)
    with FactsWriter(run, attempt=2) as facts:
        facts.event("on_start", name="drawn")
        with FigureSession(run, CONFIG, ["losses"], facts.event) as figures:
            facts.event("on_epoch_end", **epoch_record(2))
        facts.event("on_train_end", status="finished")
    assert figures.counts.drawn_epochs == [2]
    assert figures_of(run) == figures_of(tmp_path / "whole")


def test_a_rewind_takes_the_epochs_after_it_out_of_the_figures(tmp_path):
    config = replace(CONFIG, families=("losses", "codebook"))
    stored_run(tmp_path / "straight", 2)
    with FactsWriter(tmp_path / "rewound") as facts:
        write_epochs(facts, 4)
        facts.timeline = 1
        facts.event("on_epoch_end", **epoch_record(1))
        facts.event("on_train_end", status="finished")
    for name in ("straight", "rewound"):
        draw_run_figures(tmp_path / name, config)
    assert figures_of(tmp_path / "rewound") == figures_of(tmp_path / "straight")


@pytest.mark.parametrize("change", [{"make_plots": False}, {"moments": ()}, {"families": ()}])
def test_what_is_switched_off_starts_no_thread(tmp_path, change):
    before = threading.active_count()
    with FigureSession(tmp_path, replace(CONFIG, **change), ALL):
        assert threading.active_count() == before
    assert not (tmp_path / "figures").exists()


def test_a_misspelt_family_is_refused_before_the_training(tmp_path):
    with pytest.raises(ConfigError, match="recon"):
        FigureSession(tmp_path, replace(CONFIG, families=("recno",)), ALL)

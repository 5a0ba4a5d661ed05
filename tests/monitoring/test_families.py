"""What each family draws, and what the switches of the settings select."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml

import midstep
from midstep.core.errors import ConfigError
from midstep.facts import FactsWriter
from midstep.facts.format.run_files import classify
from midstep.monitoring import (
    LoggingConfig,
    PlotFamily,
    build_filename,
    draw_run_figures,
    get_enabled_families,
    handle_event,
    plot_families,
    register_family,
)
from midstep.monitoring.codebook_truth import CodebookTruth, codebook_statistics
from midstep.monitoring.facts_payload import FactsPayloads
from midstep.monitoring.family_registry import unregister_family
from tests.monitoring.drawn_runs import ALL, array, figures_of, stored_run

CONF = Path(midstep.__file__).parent / "conf" / "logging"
EPOCH = ("on_epoch_end",)
SMALL = LoggingConfig(moments=EPOCH, dpi=30)


@pytest.fixture(scope="module")
def payload(tmp_path_factory):
    """The payload of a run with data for every family."""
    payloads = FactsPayloads(stored_run(tmp_path_factory.mktemp("drawn")))
    payloads.refresh()
    return payloads.payload()


def draw(name, payload):
    """The figures of one family."""
    return plot_families()[name].handle("on_epoch_end", payload, LoggingConfig())


def texts(figure):
    """Every text of a figure."""
    return " | ".join(each.get_text() for each in figure.findobj(lambda a: hasattr(a, "get_text")))


def lines(figure):
    """The data of every line with more than one point."""
    found = [line.get_ydata().tolist() for axes in figure.axes for line in axes.get_lines()]
    return [line for line in found if len(line) > 1]


def test_losses_show_the_values_a_gap_for_nan_and_the_best_epoch(payload):
    [figure] = draw("losses", payload)
    train, val = lines(figure)
    assert np.isnan(train[1])
    assert [train[0], train[2], *val] == [1.0, 1 / 3, 1.5, 0.75, 0.5]
    assert "train_loss: NaN" in texts(figure)
    assert "lowest validation loss 0.5 in epoch 2" in texts(figure)


def test_metrics_leave_to_others_what_others_draw(payload):
    [figure] = draw("metrics", payload)
    assert lines(figure) == [[1 - 1 / (epoch + 2) for epoch in range(3)]]
    [players] = draw("adversarial", payload)
    assert sorted(map(tuple, lines(players))) == [(0.5,) * 3, (0.6,) * 3, (0.7,) * 3]
    [speed] = draw("latency", payload)
    assert lines(speed) == [[2.0, 3.0, 4.0], [500.0] * 3]
    [diffusion] = draw("diffusion", payload)
    assert lines(diffusion) == [[0.3] * 3]
    assert [patch.get_height() for patch in diffusion.axes[0].patches] == [0.2]


def test_reconstructions_of_images_vectors_and_events(payload):
    [figure] = draw("recon", payload)
    assert "mean squared error 0.01" in texts(figure)
    shown = figure.axes[0].images[0].get_array()
    assert shown.shape == (2 * 5, 3 * 5)
    vectors = {"x": array(np.ones((2, 3)))}
    recorded = {
        "kind": "vector",
        "samples": vectors,
        "reconstructions": {"x": array(np.ones((2, 3)))},
    }
    [figure] = draw("recon", {"reconstructions": recorded})
    assert lines(figure)[:2] == [[1.0] * 3] * 2
    events = {
        "tokens_cont": array([[[1.0], [2.0], [9.0]]]),
        "tokens_id": [[1, 2, 0]],
        "globals": array([[5.0]]),
    }
    rebuilt = {**events, "tokens_id": [[1, 1, 0]]}
    recorded = {"kind": "events", "samples": events, "reconstructions": rebuilt}
    [figure] = draw("recon", {"reconstructions": recorded})
    # The padding is neither drawn nor counted.
    assert lines(figure)[1] == [1.0, 2.0]
    assert "2 real tokens of 1 events, 50 % of the types right" in texts(figure)


def test_families_without_their_data_draw_nothing():
    assert [draw(name, {"epoch": 0, "histories": {}}) for name in ALL] == [[]] * len(ALL)


@pytest.mark.parametrize("batch", [1, 7, 64, 1000])
def test_the_perplexity_of_an_epoch_does_not_depend_on_the_batch_size(batch):
    codes = np.random.default_rng(0).integers(0, 50, 1000)
    truth, per_rank = CodebookTruth(), np.zeros((2, 64), int)
    for index, start in enumerate(range(0, len(codes), batch)):
        per_rank[index % 2] += np.bincount(codes[start : start + batch], minlength=64)
    for rank, counts in enumerate(per_rank):
        truth.add(0, [counts.tolist()], rank=rank)
    shares = np.bincount(codes) / len(codes)
    shares = shares[shares > 0]
    direct = np.exp(-(shares * np.log(shares)).sum())
    assert truth.of_epoch(0)["perplexity"] == pytest.approx(direct, rel=1e-12)
    assert truth.of_epoch(0)["dead_codes"] == 64 - len(shares)


def test_ages_of_codes_count_epochs_since_their_last_use(payload):
    truth = CodebookTruth()
    for epoch, counts in enumerate([[1, 1, 0], [1, 0, 0], [1, 0, 0]]):
        truth.add(epoch, counts)
    assert truth.of_epoch(2)["ages"] == [[0, 2, 3]]
    truth.add(1, [0, 5, 0], timeline=1)  # a rewind counted the epoch again
    assert truth.of_epoch(2)["ages"] == [[0, 1, 3]]
    truth.add(3, [1, 0], rank=0, timeline=2)  # resumed with a smaller codebook
    truth.add(3, [1, 1, 1], rank=1)
    assert truth.of_epoch(3)["counts"] == [[1, 0]]
    assert truth.of_epoch(3)["ages"] == [[0, 1]]
    assert payload["codebook"]["oldest_dead_epochs"] == 3
    [figure] = draw("codebook", payload)
    statistics = codebook_statistics(payload["codebook"]["counts"])
    assert f"perplexity {statistics['perplexity']:.4g}, 80 % used" in texts(figure)


@pytest.mark.parametrize(
    ("change", "names"),
    [
        ({}, {"losses", "latency", "recon"}),
        ({"make_plots": False}, set()),
        ({"save_artifacts": False}, set()),
        ({"families": ("latency",)}, {"latency"}),
        ({"moments": ("on_train_end",)}, set()),
        ({"max_cost": "low"}, {"losses", "latency"}),
        ({"tags": ("samples", "speed")}, {"latency", "recon"}),
        ({"fig_format": "svg"}, {"losses", "latency", "recon"}),
    ],
)
def test_each_switch_really_switches(payload, tmp_path, change, names):
    config = replace(SMALL, **change)
    supported = ["losses", "latency", "recon"]
    drawn = handle_event(config, supported, "on_epoch_end", payload | {"run_dir": str(tmp_path)})
    assert drawn.failures == {}
    expected = {f"{name}-on_epoch_end-e002.{config.fig_format}" for name in names}
    assert {path.name for path in drawn.files} == expected
    assert {path.name for path in tmp_path.rglob("*.*")} == expected
    for path in drawn.files:
        assert classify(f"figures/{path.name}") == ("figure", True)


def test_a_family_that_raises_does_not_stop_the_others(payload, tmp_path):
    def fails(moment, payload, cfg):
        raise RuntimeError("no data")

    register_family(PlotFamily(name="broken", handle=fails))
    try:
        config = replace(SMALL, families=("broken", "losses"))
        inside = payload | {"run_dir": str(tmp_path)}
        drawn = handle_event(config, ["broken", "losses"], "on_epoch_end", inside)
        with pytest.raises(ConfigError, match="already"):
            register_family(PlotFamily(name="broken", handle=fails))
    finally:
        unregister_family("broken")
    assert drawn.failures == {"broken": "RuntimeError: no data"}
    assert [path.name for path in drawn.files] == ["losses-on_epoch_end-e002.png"]


def test_equal_data_gives_equal_bytes_and_a_list_is_a_history(tmp_path):
    first = {"run_dir": str(tmp_path / "a"), "epoch": 1, "histories": {"val_loss": [0.5, 0.25]}}
    second = first | {"run_dir": str(tmp_path / "b"), "histories": {"val_loss": {0: 0.5, 1: 0.25}}}
    for payload in (first, second):
        handle_event(SMALL, ALL, "on_epoch_end", payload)
    assert figures_of(tmp_path / "a") == figures_of(tmp_path / "b")
    assert len(figures_of(tmp_path / "a")) == 1


@pytest.mark.parametrize("counts", [[[1], [1, 2]], {"a": 1}, "many", [-1], [1 << 70]])
def test_counts_that_are_no_counts_are_left_out_and_the_run_is_drawn(tmp_path, counts):
    with FactsWriter(tmp_path) as facts:
        facts.event("on_epoch_end", epoch=0, train_loss=0.5, codebook={"counts": counts})
    payloads = FactsPayloads(tmp_path)
    payloads.refresh()
    assert payloads.payload()["histories"] == {"train_loss": {0: 0.5}}


def test_a_run_can_be_drawn_as_it_was_after_an_earlier_epoch(tmp_path):
    config = replace(SMALL, families=("losses", "codebook"))
    short = draw_run_figures(stored_run(tmp_path / "short", 2), config)
    long = draw_run_figures(stored_run(tmp_path / "long", 4), config, epoch=1)
    assert [path.name for path in short.files] == [path.name for path in long.files]
    assert figures_of(tmp_path / "short") == figures_of(tmp_path / "long")
    assert len(short.files) == 2


def test_wrong_settings_name_what_is_meant():
    with pytest.raises(ConfigError, match="did you mean 'losses'"):
        get_enabled_families(LoggingConfig(families=("loses",)), ["losses"], "on_epoch_end")
    with pytest.raises(ConfigError, match="moments must be one of"):
        LoggingConfig(moments=("on_epoch",))
    with pytest.raises(ValueError, match="on_never"):
        build_filename("losses", "on_never", 1)


@pytest.mark.parametrize("path", sorted(CONF.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_policy_fits_the_settings(path):
    values = yaml.safe_load(path.read_text())
    config = LoggingConfig(
        **{name: tuple(each) if isinstance(each, list) else each for name, each in values.items()}
    )
    drawn = [each.name for each in get_enabled_families(config, ALL, "on_train_end")]
    expected = {
        "plots_minimal": ["losses", "metrics", "latency", "adversarial"],
        "plots_standard": [name for name in LoggingConfig().families if name != "recon"],
    }
    assert drawn == expected.get(path.stem, list(LoggingConfig().families))

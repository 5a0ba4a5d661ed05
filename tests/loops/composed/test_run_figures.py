"""The group `logging` of a composed run: each moment draws, and each switch switches."""

from __future__ import annotations

from pathlib import Path

import pytest

from midstep.core.errors import ConfigError
from midstep.loops import compose
from midstep.loops.composed.loop_training import RunLocation, train_loop
from midstep.monitoring import LoggingConfig, draw_run_figures
from tests.monitoring.drawn_runs import figures_of

CURVES = "logging.families=[losses,metrics]"
ONCE = "logging.moments=[on_train_end]"
LAST = ("losses-on_train_end-e001.png", "metrics-on_train_end-e001.png")
MOMENTS = ("on_validation_end", "on_epoch_end", "on_test_end", "on_train_end")


def drawn_by(save_dir: Path, *overrides: str) -> tuple[Path, dict[str, bytes]]:
    """A run of two epochs, and its figures."""
    small = ("loop=mlp", "trainer.epochs=2", "loop.hidden_dims=[8]", "logging.dpi=30")
    composed = compose([*small, *overrides])
    location = RunLocation.from_settings(composed, save_dir=save_dir)
    run = Path(train_loop(composed, location=location)["run_dir"])
    return run, figures_of(run)


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_run_draws_each_moment_that_is_wanted_and_so_does_a_finished_one(
    moment: str, tmp_path: Path
) -> None:
    run, live = drawn_by(tmp_path, CURVES, f"logging.moments=[{moment}]")
    # The first of the two epochs may be over before there is time to draw it.
    assert {name for name in live if "e001" in name} == {
        f"{family}-{moment}-e001.png" for family in ("losses", "metrics")
    }
    assert {name.split("-")[1] for name in live} == {moment}
    for path in (run / "figures").iterdir():
        path.unlink()
    draw_run_figures(run, LoggingConfig(families=("losses", "metrics"), moments=(moment,), dpi=30))
    assert figures_of(run).items() <= live.items()


def test_the_moments_of_a_run_show_different_things(tmp_path: Path) -> None:
    moments = f"logging.moments=[{','.join(MOMENTS[:3])}]"
    _, figures = drawn_by(tmp_path, "logging.families=[losses]", moments)
    last = [content for name, content in figures.items() if name.endswith("e001.png")]
    assert len(set(last)) == len(last) == 3


@pytest.mark.parametrize(
    ("overrides", "names"),
    [
        ((), LAST),
        (("logging.make_plots=false",), ()),
        (("logging.save_artifacts=false",), ()),
        (("logging.families=[metrics]",), LAST[1:]),
        (("logging.families=[]",), ()),
        (("logging.moments=[]",), ()),
        (("logging.tags=[samples]",), ()),
    ],
)
def test_each_switch_switches(
    overrides: tuple[str, ...], names: tuple[str, ...], tmp_path: Path
) -> None:
    run, figures = drawn_by(tmp_path, CURVES, ONCE, *overrides)
    assert set(figures) == set(names)
    assert (run / "figures").exists() == bool(names)


def test_a_moment_without_figures_is_refused() -> None:
    with pytest.raises(ConfigError) as refused:
        compose(["logging.moments=[on_step]"])
    assert str(refused.value) == (
        "logging.moments must be one of on_validation_end, on_epoch_end, on_test_end, "
        "on_train_end, got 'on_step'"
    )

"""`midstep runs figures`: draws a run from its facts, and says what is missing."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from midstep.cli.main import main
from midstep.facts import FactsWriter
from tests.monitoring.drawn_runs import figures_of, stored_run


def test_a_stored_run_is_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = stored_run(tmp_path / "run_a", 2)
    wanted = ["--families", "losses,codebook", "--dpi", "30", "--epoch", "0"]
    assert main(["runs", "figures", str(run), *wanted]) == 0
    names = [f"{family}-on_epoch_end-e000.png" for family in ("losses", "codebook")]
    assert capsys.readouterr().out.split() == [str(run / "figures" / name) for name in names]
    assert set(figures_of(run)) == set(names)
    assert main(["runs", "figures", str(run), *wanted[:4], "--moments", "on_train_end"]) == 0
    later = {f"{family}-on_train_end-e001.png" for family in ("losses", "codebook")}
    assert set(figures_of(run)) - set(names) == later


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--families", "loses"], "did you mean 'losses'?"),
        ([], "has no epoch to draw"),
    ],
)
def test_what_cannot_be_drawn_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    with FactsWriter(tmp_path / "run_a") as facts:
        facts.event("on_start", name="empty")
        if arguments:
            facts.event("on_epoch_end", epoch=0, train_loss=1.0)
    assert main(["runs", "figures", str(tmp_path / "run_a"), *arguments]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert "Traceback" not in error
    assert not (tmp_path / "run_a" / "figures").exists()


def test_without_matplotlib_the_extra_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        "midstep.monitoring.figure_session.find_spec",
        lambda name: None if name == "matplotlib" else find(name),
    )
    run = stored_run(tmp_path / "run_a", 1)
    assert main(["runs", "figures", str(run)]) != 0
    assert "midstep[runs]" in capsys.readouterr().err

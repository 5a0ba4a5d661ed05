"""The example of `examples/rl` runs from training to the check of its prediction."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "rl" / "arithmetic_grpo.py"


def test_example_trains_predicts_and_checks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["--folder", str(tmp_path / "arithmetic"), "--results", str(tmp_path / "influence")]
    asked += ["--warm-up", "30", "--steps", "2"]
    monkeypatch.setattr(sys, "argv", [str(EXAMPLE), *asked])
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    said = capsys.readouterr().out
    assert "log π(18 | 9+9=) will change by" in said
    last = next(line for line in said.splitlines() if "η=1e-05" in line)
    assert float(last.split("r=")[1]) > 0.999
    assert len(list((tmp_path / "influence").glob("*/report.html"))) == 1
    assert f"midstep serve {tmp_path}," in said

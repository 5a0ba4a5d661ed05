"""The notebooks of `examples/notebooks` run from first to last cell; they have no outputs."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[3] / "examples" / "notebooks").glob("*.ipynb"))


def code_cells(path: Path) -> list[dict[str, Any]]:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


def run_notebook(path: Path) -> dict[str, Any]:
    """The names of a notebook after all of its cells; an error carries the number of the cell."""
    names: dict[str, Any] = {"__name__": "__main__"}
    for number, cell in enumerate(code_cells(path)):
        tree = ast.parse("".join(cell["source"]), f"{path.name}[{number}]")
        exec(compile(tree, f"{path.name}[{number}]", "exec", dont_inherit=True), names)
    return names


@pytest.fixture
def work_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_stored_without_outputs(path: Path) -> None:
    cells = code_cells(path)
    assert cells
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in cells)


def test_runs_that_a_notebook_trains_are_the_runs_that_it_reads(work_folder: Path) -> None:
    names = run_notebook(next(path for path in NOTEBOOKS if path.stem == "train_runs"))
    assert names["runs"].best_val_loss.tolist() == [
        result["best_val_loss"] for result in names["results"]
    ]
    slow, fast = (names["per_epoch"][run_dir].val_loss.tolist() for run_dir in names["order"])
    assert len(slow) == len(fast) == 4
    assert fast[-1] < slow[-1]
    assert len(names["axes"].lines) == 2


def test_planted_anomalies_have_larger_errors_in_a_notebook(work_folder: Path) -> None:
    names = run_notebook(next(path for path in NOTEBOOKS if path.stem == "reconstruct_events"))
    assert names["auc"] > 0.6

"""`midstep runs export`: the scalars of a run as a table, exactly."""

from __future__ import annotations

import csv
import io
import math
import sys
from pathlib import Path

import pytest

from midstep.cli.main import main
from midstep.facts import FactsWriter
from midstep.facts.read import wide_table as export_module
from tests.cli.test_main import run_without_torch


@pytest.fixture
def run(tmp_path: Path) -> Path:
    directory = tmp_path / "run_a"
    with FactsWriter(directory) as facts:
        for step in range(1, 6):
            facts.log_values(step, {"loss": 1 / step, "train/acc": -0.5 * step})
        facts.log(3, val_loss=math.nan)
        facts.timeline = 1
        facts.log(5, loss=-math.inf)
        facts.log_values(6, {"=HYPERLINK(1)": 7.0})
    return directory


def exported(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[list[str]]:
    assert main(["runs", "export", *arguments]) == 0
    told = capsys.readouterr()
    assert told.err == ""
    return list(csv.reader(io.StringIO(told.out)))


TABLE = [
    ["step", "loss", "train/acc", "val_loss", "'=HYPERLINK(1)"],
    ["1", "1.0", "-0.5", "", ""],
    ["2", "0.5", "-1.0", "", ""],
    ["3", repr(1 / 3), "-1.5", "NaN", ""],
    ["4", "0.25", "-2.0", "", ""],
    ["5", "-Infinity", "-2.5", "", ""],
    ["6", "", "", "", "7.0"],
]


@pytest.mark.parametrize("cells", [1, 12, 1_000_000], ids="{} cells at once".format)
def test_a_row_a_step_and_a_column_a_name(
    run: Path, cells: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stretches = export_module.WideTable.chunks
    monkeypatch.setattr(export_module.WideTable, "chunks", lambda table: stretches(table, cells))
    assert exported(capsys, str(run)) == TABLE


def test_an_older_timeline_is_written_as_it_was(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = [row[:4] for row in TABLE[:6]]
    old[5] = ["5", "0.2", "-2.5", ""]
    told = exported(capsys, str(run), "--timeline", "1")
    assert [row[:4] for row in told] == old
    assert main(["runs", "export", str(run), "--timeline", "7"]) == 2
    assert "it has 1 to 2" in capsys.readouterr().err


def test_only_the_named_series_in_the_order_given(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = exported(capsys, "run_a", "--save-dir", str(run.parent), "--names", "val_loss,loss")
    assert rows[0] == ["step", "val_loss", "loss"]
    assert rows[3] == ["3", "NaN", repr(1 / 3)]
    assert len(rows) == 6
    again = exported(capsys, str(run), "--names", "val_loss", "--names", "loss")
    assert again == rows


def test_a_file_is_written_whole_or_not_at_all(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "run.csv"
    out.write_text("old")
    assert main(["runs", "export", str(run), "--names", "nothing", "--out", str(out)]) == 2
    assert out.read_text() == "old"
    assert main(["runs", "export", str(run), "--out", str(out)]) == 0
    with out.open(newline="") as file:
        assert list(csv.reader(file)) == TABLE
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["run.csv", "run_a"]


def test_a_device_is_written_and_stays_one(run: Path) -> None:
    assert main(["runs", "export", str(run), "--out", "/dev/null"]) == 0
    assert Path("/dev/null").is_char_device()


def test_parquet_has_the_same_table_with_nulls(run: Path, tmp_path: Path) -> None:
    from pyarrow import parquet

    out = tmp_path / "run.parquet"
    assert main(["runs", "export", str(run), "--format", "parquet", "--out", str(out)]) == 0
    found = parquet.read_table(out)
    assert found.column_names == ["step", "loss", "train/acc", "val_loss", "=HYPERLINK(1)"]
    assert found["step"].to_pylist() == [1, 2, 3, 4, 5, 6]
    assert found["loss"].to_pylist() == [1.0, 0.5, 1 / 3, 0.25, -math.inf, None]
    val_loss = found["val_loss"].to_pylist()
    assert math.isnan(val_loss.pop(2))
    assert val_loss == [None] * 5


def test_a_run_without_scalars_is_a_table_without_rows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    FactsWriter(tmp_path / "run_b").close()
    assert exported(capsys, str(tmp_path / "run_b")) == [["step"]]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--names", "lossy"], "no series 'lossy' in this run; it has"),
        (["--format", "parquet"], "name one with --out"),
        (["--format", "parquet", "--out", "run.parquet"], "pip install 'midstep[parquet]'"),
        (["--out", "nowhere/run.csv"], "cannot write nowhere/run.csv"),
    ],
)
def test_what_is_missing_is_one_line_and_code_2(
    run: Path,
    arguments: list[str],
    words: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(run.parent)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert main(["runs", "export", str(run), *arguments]) == 2
    told = capsys.readouterr()
    assert told.err.startswith("midstep: ")
    assert words in told.err
    assert told.err.count("\n") == 1
    assert [entry.name for entry in run.parent.iterdir()] == ["run_a"]


def test_it_works_without_torch(run: Path, tmp_path: Path) -> None:
    answer = run_without_torch("runs", "export", str(run), "--names", "val_loss", cwd=tmp_path)
    assert (answer.returncode, answer.stderr) == (0, "")
    assert answer.stdout == "step,val_loss\n3,NaN\n"

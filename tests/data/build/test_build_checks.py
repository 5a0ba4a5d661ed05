"""What is wrong with the settings of a build is told before its tables are read."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from midstep.core.errors import ConfigError, DatasetError, MissingExtraError, StorageError
from midstep.data.build import pipeline
from midstep.data.build.build_config import BuildConfig
from midstep.data.build.builders import build_cluster_dataset, build_dataset, build_triplets
from tests.data.build.text_samples import topic_rows, write_csv


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A table that must not be read."""

    def read(config: BuildConfig) -> Any:
        raise AssertionError("the table was read")

    monkeypatch.setattr(pipeline, "read_rows", read)
    return write_csv(tmp_path / "t.csv", topic_rows(20))


def refused(config: BuildConfig, error: type[Exception], match: str, build=build_dataset) -> None:
    with pytest.raises(error, match=match):
        build(config)
    # Nothing is left of a build that did not begin.
    assert not config.work_folder.exists()
    assert not config.out_folder.exists()


@pytest.mark.parametrize("build", [build_dataset, build_cluster_dataset, build_triplets])
@pytest.mark.parametrize(
    ("encoder", "error", "match"),
    [
        ("hash", ConfigError, "encoder 'hash' is unknown; use hashing"),
        ("hashing:1", ConfigError, "a width of at least 2, got 1"),
        ("sentence:", ConfigError, "is unknown; use hashing"),
        ("sentence:nowhere", DatasetError, "nowhere holds no model"),
        (7, ConfigError, "an encoder is a name"),
    ],
)
def test_encoder_that_is_not_there(table, tmp_path, build, encoder, error, match) -> None:
    config = BuildConfig(tables=table, out=tmp_path / "d", encoder=encoder)
    refused(config, error, match, build)


def test_missing_packages_are_named(table, tmp_path, monkeypatch) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    config = BuildConfig(tables=table, out=tmp_path / "d", form="hdf5")
    refused(config, MissingExtraError, r"midstep\[data\]")
    config = BuildConfig(tables=table, out=tmp_path / "d", encoder=f"sentence:{tmp_path / 'model'}")
    refused(config, MissingExtraError, r"midstep\[hf\]")


def test_vectors_that_are_not_there_or_do_not_fit(table, tmp_path) -> None:
    config = BuildConfig(tables=table, out=tmp_path / "d", embeddings=tmp_path / "vectors")
    refused(config, DatasetError, "--embeddings takes a folder with questions.npy and sources.npy")
    (tmp_path / "vectors").mkdir()
    np.save(tmp_path / "vectors" / "questions.npy", np.zeros((20, 4), np.float32))
    np.save(tmp_path / "vectors" / "sources.npy", np.zeros((20, 4), np.int64))
    refused(config, DatasetError, "sources.npy is int64 .*, expected floats")
    np.save(tmp_path / "vectors" / "sources.npy", np.zeros((20, 5), np.float32))
    refused(config, DatasetError, "both need one row for each row of the tables, of one width")


def test_last_table_is_looked_at_before_the_first_is_read(table, tmp_path) -> None:
    config = BuildConfig(tables=[table, tmp_path / "gone.csv"], out=tmp_path / "d")
    refused(config, DatasetError, "gone.csv does not exist; name a CSV, TSV or Parquet file")
    config = BuildConfig(tables=[table, tmp_path], out=tmp_path / "d")
    refused(config, DatasetError, "is a folder; name a CSV")
    other = write_csv(tmp_path / "o.csv", [{"question": "q", "text": "s", "relevance": 1}])
    config = BuildConfig(tables=[table, other], out=tmp_path / "d")
    refused(config, DatasetError, "o.csv has no column 'source'")


@pytest.mark.parametrize(
    "settings",
    [
        {"ratios": {"train": 0.8, "val": 0.1, "test": 0.3}},
        {"near_duplicate": 7},
        {"near_duplicate": 0},
        {"quotas": {1: 1, 2: 1, 3: 1, 4: 1}},
    ],
)
def test_settings_out_of_range(table, tmp_path, settings) -> None:
    with pytest.raises(DatasetError, match="the build cannot begin"):
        BuildConfig(tables=table, out=tmp_path / "d", **settings)


def test_triplets_of_no_sources(table, tmp_path) -> None:
    config = BuildConfig(tables=table, out=tmp_path / "d")
    refused(config, ConfigError, "k must be a whole number of at least 1", _no_triplets)


def _no_triplets(config: BuildConfig) -> Path:
    return build_triplets(config, k=0)


def test_target_that_cannot_be_made(table, tmp_path) -> None:
    (tmp_path / "taken").mkdir()
    with pytest.raises(StorageError, match="choose another name, or remove it first"):
        build_dataset(BuildConfig(tables=table, out=tmp_path / "taken"))
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot create the folder"):
        build_dataset(BuildConfig(tables=table, out=tmp_path / "file" / "d"))

"""The cluster-labelled dataset: what it gives, how it is opened, what it refuses."""

from __future__ import annotations

import multiprocessing
import pickle
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from midstep.core.errors import ConfigError, DatasetError
from midstep.data import ClusterLabeledDataset, ClusterSamples, write_cluster_dataset
from midstep.data.cluster_labels import sample_database
from midstep.data.cluster_labels.label_formulas import (
    combined_labels,
    source_labels,
    steering_labels,
)
from midstep.data.cluster_labels.sample_database import SampleDatabase

COUNT, CLUSTERS, WIDTH = 40, 3, 5
NAMES = ("base_embeddings", "steering_embeddings", "centroid_embeddings")


def make_samples(**changes: Any) -> ClusterSamples:
    chance = np.random.default_rng(1)
    steering = chance.standard_normal((COUNT, WIDTH)).astype(np.float32)
    steering[5] = 0
    settings: dict[str, Any] = {
        "base_embeddings": chance.standard_normal((COUNT, WIDTH)).astype(np.float32),
        "steering_embeddings": steering,
        "centroids": chance.standard_normal((CLUSTERS, WIDTH)).astype(np.float32),
        "suggestion_embeddings": chance.standard_normal((4, WIDTH)).astype(np.float32),
        "suggestions": [[row % 4, (row + 1) % 4][: row % 3] for row in range(COUNT)],
        "suggestion_terms": ["law", "sea", "sky", "sport"],
        "texts": [f"text {row} = 雪" for row in range(COUNT)],
        "metadata": [{"row": row} for row in range(COUNT)],
        "cluster_names": ["one", "two", "three"],
    }
    return ClusterSamples(**{**settings, **changes})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_cluster_dataset(tmp_path_factory.mktemp("clusters") / "made", make_samples())


@pytest.fixture
def copy(folder: Path, tmp_path: Path) -> Path:
    return shutil.copytree(folder, tmp_path / "copy")


def alter(folder: Path, statement: str, values: tuple[Any, ...] = ()) -> None:
    with closing(sqlite3.connect(folder / "dataset.db")) as database, database:
        database.execute(statement, values)


# -- samples ---------------------------------------------------------------------------------------


def test_samples_are_rows_of_the_files_with_labels_of_the_formulas(folder: Path) -> None:
    samples = make_samples()
    source = source_labels(samples.centroids, samples.term_embeddings, samples.term_ids)
    steering = steering_labels(samples.steering_embeddings, samples.centroids)
    labels = {
        "source": source,
        "steering": steering,
        "combined": combined_labels(source, steering),
    }
    for label_type, expected in labels.items():
        dataset = ClusterLabeledDataset(folder, label_type)
        base, steered, label = dataset[5]
        assert base.tolist() == samples.base_embeddings[5].tolist()
        assert steered.tolist() == [0.0] * WIDTH
        np.testing.assert_array_equal(dataset.labels.numpy(), expected)
        assert label.tolist() == expected[5].tolist()
        assert dataset.labels.sum(dim=1).sub(1).abs().max() < 1e-6


@pytest.mark.parametrize("mmap_mode", ["r", None])
def test_batches_equal_the_samples_one_by_one(folder: Path, mmap_mode: Any) -> None:
    dataset = ClusterLabeledDataset(folder, mmap_mode=mmap_mode)
    rows = [7, 0, 39, 7]
    for one, other in zip(
        dataset.batch(rows), zip(*map(dataset.__getitem__, rows), strict=True), strict=True
    ):
        assert torch.equal(one, torch.stack(other))
    assert torch.equal(dataset[-1][0], dataset[39][0])


def test_plain_loader_and_gathered_loader_give_the_same_batches(folder: Path) -> None:
    dataset = ClusterLabeledDataset(folder)
    plain = list(DataLoader(dataset, batch_size=16))
    gathered = list(DataLoader(dataset, batch_size=16, collate_fn=dataset.collate))
    assert [len(batch[0]) for batch in gathered] == [16, 16, 8]
    for one, other in zip(plain, gathered, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def test_half_precision_is_kept_on_disk_and_widened_in_batches(tmp_path: Path) -> None:
    half = make_samples(base_embeddings=make_samples().base_embeddings.astype(np.float16))
    dataset = ClusterLabeledDataset(write_cluster_dataset(tmp_path / "half", half))
    base, _, _ = dataset.batch([3, 4])
    assert base.dtype == torch.float32
    assert base.tolist() == half.base_embeddings[3:5].astype(np.float32).tolist()


@pytest.mark.parametrize("index", [COUNT, -COUNT - 1])
def test_sample_beyond_the_end_is_an_index_error(folder: Path, index: int) -> None:
    dataset = ClusterLabeledDataset(folder)
    with pytest.raises(IndexError):
        dataset[index]
    with pytest.raises(IndexError, match="numbered 0 to 39"):
        dataset.batch([0, COUNT])


# -- metadata --------------------------------------------------------------------------------------


def test_metadata_comes_as_a_fourth_part_when_asked_for(folder: Path) -> None:
    dataset = ClusterLabeledDataset(folder, return_metadata=True)
    expected = {
        "id": 5,
        "text": "text 5 = 雪",
        "suggestions": ["sea", "sky"],
        "metadata": {"row": 5},
    }
    assert dataset[5][3] == expected
    loader = DataLoader(dataset, batch_size=8, collate_fn=dataset.collate)
    assert next(iter(loader))[3][5] == expected


def test_cache_keeps_the_rows_used_last(folder: Path) -> None:
    dataset = ClusterLabeledDataset(folder, cache_size=3)
    for row in (1, 2, 3, 1, 4):
        dataset.metadata(row)
    assert dataset.cached == (3, 1, 4)
    assert dataset.prefill_cache() == 3
    assert dataset.cached == (0, 1, 2)
    assert dataset.prefill_cache([9, 8]) == 2
    assert dataset.cached == (2, 9, 8)
    dataset.clear_cache()
    assert dataset.cached == ()


def test_cached_metadata_asks_the_database_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = ClusterLabeledDataset(folder)
    dataset.prefill_cache()
    monkeypatch.setattr(SampleDatabase, "rows", None)
    assert dataset.metadata(7)["text"] == "text 7 = 雪"


# -- processes -------------------------------------------------------------------------------------


def read_all(dataset: ClusterLabeledDataset, start: Any, answers: Any) -> None:
    start.wait(60)
    seen = []
    for row in range(COUNT):
        dataset.clear_cache()
        seen.append((dataset.metadata(row)["text"], dataset[row][2].tolist()))
    answers.put(seen)


def test_eight_processes_read_one_database_at_once(folder: Path) -> None:
    dataset = ClusterLabeledDataset(folder)
    expected = [(dataset.metadata(row)["text"], dataset[row][2].tolist()) for row in range(COUNT)]
    context: Any = multiprocessing.get_context("fork")
    start, answers = context.Event(), context.Queue()
    readers = [context.Process(target=read_all, args=(dataset, start, answers)) for _ in range(8)]
    for reader in readers:
        reader.start()
    start.set()
    try:
        assert [answers.get(timeout=60) for _ in readers] == [expected] * 8
    finally:
        for reader in readers:
            reader.join(60)
            reader.kill()
            reader.close()
        answers.close()
        answers.join_thread()
    assert dataset.metadata(0)["text"] == "text 0 = 雪"  # the parent's connection still works


def test_pickle_carries_the_place_and_not_the_values(folder: Path) -> None:
    dataset = ClusterLabeledDataset(folder, "source", cache_size=7)
    carried = pickle.dumps(dataset)
    assert len(carried) < 1000
    other = pickle.loads(carried)
    assert other.cache_size == 7
    assert torch.equal(other.batch([1, 2])[2], dataset.batch([1, 2])[2])


# -- opening ---------------------------------------------------------------------------------------


def test_moved_folder_opens_and_is_the_same_data(folder: Path, copy: Path) -> None:
    before = ClusterLabeledDataset(folder).fingerprint()
    moved = copy.rename(copy.with_name("elsewhere ?mode=rw&x=#%20"))
    assert ClusterLabeledDataset(moved).fingerprint() == before


def test_opening_and_reading_writes_nothing(copy: Path) -> None:
    before = {path.name: path.read_bytes() for path in copy.iterdir()}
    ClusterLabeledDataset(copy).prefill_cache()
    assert {path.name: path.read_bytes() for path in copy.iterdir()} == before


@pytest.mark.parametrize("name", NAMES)
def test_changed_file_is_caught_by_its_checksum(copy: Path, name: str) -> None:
    path = copy / f"{name}.npy"
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)
    with pytest.raises(DatasetError, match=rf"{name}\.npy has changed since it was written"):
        ClusterLabeledDataset(copy)
    assert len(ClusterLabeledDataset(copy, verify=False)) == COUNT


def test_all_that_is_wrong_with_the_files_is_told_at_once(copy: Path) -> None:
    (copy / "base_embeddings.npy").unlink()
    np.save(copy / "steering_embeddings.npy", np.zeros((2, WIDTH), np.float32))
    with pytest.raises(DatasetError) as caught:
        ClusterLabeledDataset(copy)
    assert caught.value.problems == (
        "base_embeddings.npy is missing",
        "steering_embeddings.npy holds float32 [2, 5], embeddings_meta says float32 [40, 5]",
    )


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("UPDATE embeddings_meta SET path = '/etc/passwd'", "by its relative path"),
        ("UPDATE embeddings_meta SET path = '../made.npy'", "by its relative path"),
        ("UPDATE embeddings_meta SET rows = 41", r"has the shape \[41, 5\], dataset_info"),
        (
            "UPDATE embeddings_meta SET dtype = 'float16'",
            r"holds float32 \[40, 5\], embeddings_meta says float16",
        ),
        ("DELETE FROM embeddings_meta", "embeddings_meta has no row base_embeddings"),
        ("DELETE FROM samples WHERE id = 3", "samples has 39 rows, expected the ids 0 to 39"),
        ("UPDATE samples SET source_label = x'00' WHERE id = 3", "source_label of sample 3 is not"),
        (
            "UPDATE samples SET steering_label = zeroblob(12) WHERE id = 3",
            "steering_label of sample 3 sums to 0",
        ),
        (
            "UPDATE samples SET source_label = steering_label WHERE id = 3",
            "the labels have changed since they were written",
        ),
        (
            "UPDATE dataset_info SET value = '2' WHERE key = 'format_version'",
            "format_version must be one of 1, got 2",
        ),
        ("UPDATE dataset_info SET value = '{' WHERE key = 'n_samples'", "n_samples.* is not JSON"),
        (
            "UPDATE dataset_info SET value = '-1' WHERE key = 'n_samples'",
            "n_samples must be a whole number of at least 1, got -1",
        ),
        (
            "UPDATE dataset_info SET value = '4611686018427387904' WHERE key = 'n_samples'",
            r"dataset_info \[4611686018427387904, 5\]",
        ),
        ("DELETE FROM dataset_info", "embedding_dim is missing"),
        ("DROP TABLE samples", "there is no table samples"),
        ("CREATE VIEW more AS SELECT 1", "more is a view, only plain tables are read"),
    ],
)
def test_damaged_database_is_refused(copy: Path, statement: str, told: str) -> None:
    alter(copy, statement)
    with pytest.raises(DatasetError, match=told):
        ClusterLabeledDataset(copy)


def test_virtual_table_in_place_of_a_plain_one_is_refused(copy: Path) -> None:
    alter(copy, "DROP TABLE samples")
    alter(copy, "CREATE VIRTUAL TABLE samples USING fts5(text)")
    with pytest.raises(DatasetError, match="there is no table samples"):
        ClusterLabeledDataset(copy)


def test_metadata_that_is_no_json_is_told_with_its_place(copy: Path) -> None:
    alter(copy, "UPDATE samples SET metadata = '[' WHERE id = 3")
    with pytest.raises(DatasetError, match=r"samples\[3\]\.metadata is not JSON"):
        ClusterLabeledDataset(copy).metadata(3)


def test_file_that_is_no_database_is_refused(copy: Path) -> None:
    (copy / "dataset.db").write_bytes(b"not a database" * 100)
    with pytest.raises(DatasetError, match="cannot be read: file is not a database"):
        ClusterLabeledDataset(copy)
    (copy / "dataset.db").unlink()
    with pytest.raises(DatasetError, match=r"dataset\.db is missing"):
        ClusterLabeledDataset(copy)


def test_database_is_never_written_and_no_question_runs_for_ever(copy: Path, monkeypatch) -> None:
    monkeypatch.setattr(sample_database, "LIMIT_S", 0.2)
    database = SampleDatabase(copy / "dataset.db")
    with pytest.raises(DatasetError, match="readonly database"):
        database.rows("DELETE FROM samples")
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i FROM n) SELECT max(i) FROM n"
    with pytest.raises(DatasetError, match="interrupted"):
        database.rows(endless)
    database.close()


def test_link_out_of_the_folder_is_refused(copy: Path, tmp_path: Path) -> None:
    (copy / "base_embeddings.npy").rename(tmp_path / "outside.npy")
    (copy / "base_embeddings.npy").symlink_to(tmp_path / "outside.npy")
    with pytest.raises(DatasetError, match=r"expected a \.npy file in the dataset's folder"):
        ClusterLabeledDataset(copy)


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ({"label_type": "both"}, "must be one of combined, source, steering"),
        ({"cache_size": -1}, "at least 0"),
        ({"mmap_mode": "r+"}, "datasets are read-only"),
    ],
)
def test_wrong_setting_is_refused(folder: Path, setting: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        ClusterLabeledDataset(folder, **setting)


# -- writing ---------------------------------------------------------------------------------------


def test_samples_that_do_not_fit_are_refused_and_nothing_is_written(tmp_path: Path) -> None:
    base = make_samples().base_embeddings.copy()
    base[2, 1] = np.nan
    probabilities = np.full((COUNT, CLUSTERS), np.nan)
    probabilities[4] = [0.5, 0.6, 0.1]
    wrong = make_samples(
        base_embeddings=base,
        steering_embeddings=np.zeros((COUNT, 2)),
        source_probabilities=probabilities,
        suggestions=[[9]] * COUNT,
        texts=["one"],
    )
    with pytest.raises(DatasetError) as caught:
        write_cluster_dataset(tmp_path / "made", wrong)
    assert caught.value.problems == (
        "base_embeddings[2, 1] is nan, expected a finite number",
        "steering_embeddings has the shape [40, 2], expected [40, 5]",
        "source_probabilities[4] has the sum 1.2 and the least value 0.1, expected probabilities "
        "that sum to 1, or NaN throughout",
        "suggestions names the term 9, expected 0 to 3",
        "texts has 1 entries for 40 samples",
    )
    assert list(tmp_path.iterdir()) == []

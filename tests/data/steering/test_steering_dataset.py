"""Steering batches: what is in them, and on what they depend."""

from __future__ import annotations

import multiprocessing
import pickle
import random
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from midstep.core.errors import ConfigError, DatasetError
from midstep.data import JASPERSteeringDataset, Tables, create_loader, open_tables
from midstep.data.steering import loaded_tables
from midstep.data.steering.prefetch import BufferRing
from midstep.data.steering.storage.layout import SPLITS

Batch = dict[str, torch.Tensor]


def slow_sample(tables: Tables, pair: int, variant: int) -> dict[str, np.ndarray]:
    """One sample, as the contract's table says."""
    question, source = tables["pair_index"][pair]
    names = ("centroid", "keyword_weighted", "residual")
    return {
        "question_emb": tables["question_embs"][question],
        "target_source_emb": tables["source_embs"][source].astype(np.float32),
        "steering": tables[f"steering_{names[variant - 1]}"][pair] if variant else np.zeros(6),
        "negative_embs": np.stack(
            [tables["source_embs"][each] for each in tables["hard_negatives"][pair]]
        ).astype(np.float32),
        "cluster_id": tables["pair_cluster_id"][pair],
        "steering_variant": np.int64(variant),
        "relevance": tables["pair_relevance"][pair],
        "centroid_distance": tables["centroid_distances"][pair],
        "negative_tiers": tables["negative_tiers"][pair],
        "pair_id": np.int64(pair),
    }


@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("split", SPLITS)
def test_batch_equals_the_tables(folder: Path, split: str, mapped: bool) -> None:
    dataset, tables = JASPERSteeringDataset(folder, split, mapped=mapped), open_tables(folder)
    batch = dataset.batch(range(len(dataset)))
    for row, pair in enumerate(tables[f"{split}_idx"]):
        expected = slow_sample(tables, int(pair), int(batch["steering_variant"][row]))
        for key, value in expected.items():
            assert np.array_equal(batch[key][row].numpy(), value), key
    assert set(batch) == set(expected)


def test_types_and_shapes(folder: Path) -> None:
    batch = JASPERSteeringDataset(folder).batch([3, 1])
    assert {key: tuple(value.shape) for key, value in batch.items()} == {
        "question_emb": (2, 6),
        "target_source_emb": (2, 6),
        "steering": (2, 6),
        "negative_embs": (2, 4, 6),
        "cluster_id": (2,),
        "steering_variant": (2,),
        "relevance": (2,),
        "centroid_distance": (2,),
        "negative_tiers": (2, 4),
        "pair_id": (2,),
    }
    whole = {"cluster_id", "steering_variant", "negative_tiers", "pair_id"}
    for key, value in batch.items():
        assert value.dtype == (torch.int64 if key in whole else torch.float32)


@pytest.mark.parametrize(
    ("name", "number"),
    [("zero", 0), ("centroid", 1), ("keyword", 2), ("keyword_weighted", 2), ("residual", 3)],
)
def test_forced_steering_is_the_same_for_all(folder: Path, name: str, number: int) -> None:
    batch = JASPERSteeringDataset(folder, force_steering=name).batch(range(48))
    assert (batch["steering_variant"] == number).all()
    assert bool(batch["steering"].any()) == (number > 0)


def test_fewer_negatives_are_a_choice_in_stored_order(folder: Path) -> None:
    whole = JASPERSteeringDataset(folder).batch(range(48))
    dataset = JASPERSteeringDataset(folder, n_neg=2)
    seen = set()
    for epoch in range(6):
        few = dataset.batch(range(48), epoch=epoch)
        for row in range(48):
            where = [
                next(i for i in range(4) if torch.equal(each, whole["negative_embs"][row, i]))
                for each in few["negative_embs"][row]
            ]
            assert where == sorted(set(where))
            assert few["negative_tiers"][row].tolist() == [
                int(whole["negative_tiers"][row, i]) for i in where
            ]
            seen.add(tuple(where))
    assert len(seen) == 6  # every choice of two out of four
    with pytest.raises(DatasetError, match="n_neg must be from 1 to 4"):
        JASPERSteeringDataset(folder, n_neg=5)


def by_pair(batches) -> dict[int, tuple[int, bytes]]:
    """Variant and negatives of every pair."""
    found = {}
    for batch in batches:
        for row, pair in enumerate(batch["pair_id"].tolist()):
            found[pair] = (
                int(batch["steering_variant"][row]),
                batch["negative_embs"][row].numpy().tobytes(),
            )
    return found


def resumed(dataset: JASPERSteeringDataset, workers: int) -> list[Batch]:
    """An epoch in random order, begun by one loader and ended by another, with live workers."""
    options = {"persistent_workers": True} if workers else {}
    first, second = (
        create_loader(made, "train", 10, workers, drop_last=False, worker_options=options)
        for made in (dataset, dataset.for_split("train"))
    )
    second.set_epoch(1)
    list(second)  # its workers have lived through another epoch
    drawn = [batch for _, batch in zip(range(2), first, strict=False)]
    second.load_state_dict(first.state_dict())
    return [*drawn, *second]


def test_samples_depend_on_seed_epoch_and_pair_alone(folder: Path) -> None:
    def make() -> JASPERSteeringDataset:
        return JASPERSteeringDataset(folder, n_neg=2, epoch=5)

    expected = by_pair([make().batch(range(48))])
    places = list(range(48))
    random.Random(1).shuffle(places)
    alone = make()
    assert by_pair([alone.batch([each]) for each in places]) == expected
    alone.set_epoch(9)
    alone.batch(range(10))
    alone.set_epoch(5)
    assert by_pair([alone.batch(range(48))]) == expected
    assert by_pair([{key: value[None] for key, value in make()[at].items()} for at in places]) == (
        expected
    )
    ranked = [
        create_loader(make(), "train", 12, distributed=(rank, 3), shuffle=False)
        for rank in range(3)
    ]
    assert by_pair([batch for loader in ranked for batch in loader]) == expected
    assert by_pair(resumed(make(), workers=0)) == expected
    assert by_pair(resumed(make(), workers=2)) == expected
    alone.set_epoch(6)
    assert by_pair([alone.batch(range(48))]) != expected
    other = JASPERSteeringDataset(folder, n_neg=2, epoch=5, seed=8)
    assert by_pair([other.batch(range(48))]) != expected


def test_single_samples_collate_in_a_plain_loader(folder: Path) -> None:
    dataset = JASPERSteeringDataset(folder)
    loader = DataLoader([dataset[at] for at in range(8)], batch_size=8)
    (batch,) = loader
    expected = dataset.batch(range(8))
    assert all(torch.equal(batch[key], expected[key]) for key in expected)
    with pytest.raises(IndexError):
        dataset[48]


def test_epoch_reaches_persistent_workers_of_any_loader(folder: Path) -> None:
    dataset = JASPERSteeringDataset(folder)
    loader = DataLoader(
        dataset, batch_size=48, num_workers=1, persistent_workers=True, collate_fn=lambda made: made
    )
    for epoch in (0, 30, 0):
        dataset.set_epoch(epoch)
        (batch,) = loader
        expected = dataset.batch(range(48), epoch=epoch)
        assert torch.equal(batch["steering_variant"], expected["steering_variant"])


def test_splits_share_tables_and_not_epochs(folder: Path) -> None:
    train = JASPERSteeringDataset(folder, "train", epoch=4)
    val = train.for_split("val", force_steering="centroid")
    assert val._tables is train._tables
    assert (len(val), val.epoch, val.force_steering) == (6, 4, "centroid")
    val.set_epoch(9)
    assert train.epoch == 4


def test_spawned_process_opens_the_dataset_again(folder: Path) -> None:
    dataset = JASPERSteeringDataset(folder, mapped=True, epoch=3)
    copy = pickle.loads(multiprocessing.reduction.ForkingPickler.dumps(dataset._tables))
    assert copy.folder == folder
    assert copy.mapped
    assert np.array_equal(copy.columns["pair_index"], dataset._tables.columns["pair_index"])


def test_tables_on_a_device_give_batches_there(folder: Path) -> None:
    """The device `meta` has shapes and no values, and so needs no hardware."""
    loader = create_loader(folder, "train", 8, device="meta", n_neg=3)
    for batch in loader:
        assert {value.device.type for value in batch.values()} == {"meta"}
        assert batch["negative_embs"].shape == (8, 3, 6)
    assert loader.cursor == 48


@pytest.mark.parametrize("mapped", [False, True])
def test_no_file_is_opened_while_batches_are_drawn(
    folder: Path, tmp_path: Path, mapped: bool
) -> None:
    gone = shutil.copytree(folder, tmp_path / "gone")
    loader = create_loader(gone, "train", 8, mapped=mapped)
    shutil.rmtree(gone)
    for batch, expected in zip(loader, create_loader(folder, "train", 8), strict=True):
        assert all(torch.equal(batch[key], expected[key]) for key in expected)


def test_mapped_rows_are_read_in_runs_and_come_back_in_order(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loaded_tables, "REGION_BYTES", 64)
    tables = open_tables(folder)
    table = loaded_tables.RowTable(tables["source_embs"])  # float16, 12 bytes a row
    ids = torch.tensor([39, 3, 3, 0, 20, 11, 39])
    found = table.gather(ids, torch.empty(7, 6))
    assert len(table.pages.split_runs(np.array([0, 3, 11, 20, 39]))) > 1
    assert torch.equal(found, torch.from_numpy(tables["source_embs"][ids.numpy()]).float())


def test_wrong_arguments_are_refused(folder: Path, folders: dict[str, Path]) -> None:
    with pytest.raises(DatasetError, match="split 'dev' is unknown; use one of train, val, test"):
        JASPERSteeringDataset(folder, "dev")
    with pytest.raises(ConfigError, match="epochs count from 0"):
        JASPERSteeringDataset(folder, epoch=-1)
    with pytest.raises(DatasetError, match=r"midstep data convert .* --form memmap"):
        JASPERSteeringDataset(folders["hdf5"], mapped=True)
    with pytest.raises(DatasetError, match="storage format 'zip' is unknown"):
        JASPERSteeringDataset(folder, storage_format="zip")


def test_ring_uses_buffers_again_but_never_one_that_is_held() -> None:
    ring = BufferRing(4, 2)
    first = ring.take()
    first[:] = 1
    view = first[2]
    del first
    for _ in range(20):
        ring.take()[:] = 2
    assert view.tolist() == [1, 1]
    kept = [ring.take() for _ in range(20)]
    for number, each in enumerate(kept):
        each[:] = number
    assert [int(each[0, 0]) for each in kept] == list(range(20))
    assert len(ring._slots) <= 6


def test_fingerprint_is_the_same_in_every_form(folders: dict[str, Path]) -> None:
    prints = [JASPERSteeringDataset(each).fingerprint() for each in folders.values()]
    assert prints[0] == prints[1] == prints[2]

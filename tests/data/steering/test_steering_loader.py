"""Loaders: resumable at every batch, the same for workers, ranks and order policies."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from midstep.core.errors import ConfigError, DatasetError, FormatError
from midstep.data import (
    JASPERSteeringDataset,
    SteeringLoader,
    create_loader,
    validate_first_batch,
    write_dataset,
)
from midstep.data.order.order_strategy import OrderConfig
from midstep.data.order.ordered_loader import OrderedLoader
from midstep.data.order.permutation import Order
from midstep.data.steering.global_batches import RankInfo
from tests.checkers.resume import assert_resumes
from tests.data.steering.table_samples import sample_config, sample_tables

Batch = dict[str, torch.Tensor]


class Ids:
    """A loader as a stream of pair ids and variants, for the checker."""

    def __init__(self, loader: SteeringLoader) -> None:
        self.loader = loader
        self.state_dict, self.load_state_dict = loader.state_dict, loader.load_state_dict

    def __iter__(self) -> Any:
        for batch in self.loader:
            yield [batch["pair_id"].tolist(), batch["steering_variant"].tolist()]


@pytest.fixture(scope="session")
def dataset(folder: Path) -> JASPERSteeringDataset:
    return JASPERSteeringDataset(folder)


def ids(batches: Any) -> list[list[int]]:
    return [batch["pair_id"].tolist() for batch in batches]


# -- order and epochs ------------------------------------------------------------------------------


def test_order_is_that_of_sessions(dataset: JASPERSteeringDataset) -> None:
    loader = create_loader(dataset.for_split("train"), "train", 8, seed=3)
    loader.set_epoch(2)
    expected = dataset.pair_ids[Order(48, seed=3, epoch=2).ids().numpy()]
    assert np.concatenate([batch["pair_id"].numpy() for batch in loader]).tolist() == (
        expected.tolist()
    )


def test_only_training_is_shuffled_and_cut(dataset: JASPERSteeringDataset) -> None:
    train = create_loader(dataset.for_split("train"), "train", 10)
    assert [len(batch) for batch in ids(train)] == [10] * 4
    val = create_loader(dataset, "val", 4)
    assert ids(val) == [
        dataset.for_split("val").pair_ids[:4].tolist(),
        dataset.for_split("val").pair_ids[4:].tolist(),
    ]
    assert (len(train), len(val)) == (4, 2)
    assert val.dataset_obj.split == "val"


def test_epochs_advance_unless_somebody_counts(dataset: JASPERSteeringDataset) -> None:
    loader = create_loader(dataset.for_split("train"), "train", 8)
    counted = create_loader(dataset.for_split("train"), "train", 8)
    for epoch in range(3):
        counted.dataset_obj.set_epoch(epoch)
        assert ids(loader) == ids(counted)
        assert loader.epoch == epoch
    counted.set_epoch(2)
    again = ids(counted)
    assert counted.epoch == 2
    assert again == ids(create_epoch(dataset, 2))
    fixed = create_loader(dataset, "val", 4)
    list(fixed), list(fixed)
    assert fixed.epoch == 0


def create_epoch(dataset: JASPERSteeringDataset, epoch: int, **options: Any) -> SteeringLoader:
    loader = create_loader(dataset.for_split("train"), "train", 8, **options)
    loader.set_epoch(epoch)
    return loader


def test_pass_that_was_broken_off_begins_anew(dataset: JASPERSteeringDataset) -> None:
    loader = create_epoch(dataset, 1)
    whole = ids(loader)
    loader.set_epoch(1)
    for _ in loader:
        break
    assert loader.cursor == 8
    loader.set_epoch(1)
    assert ids(loader) == whole


def test_kept_batches_stay_as_they_are(dataset: JASPERSteeringDataset) -> None:
    kept = list(create_epoch(dataset, 1))
    for batch, again in zip(kept, create_epoch(dataset, 1), strict=True):
        assert all(torch.equal(batch[key], again[key]) for key in batch)


def test_error_while_making_ahead_comes_out(
    dataset: JASPERSteeringDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    loader = create_epoch(dataset, 0)

    def broken(*_: Any) -> None:
        raise RuntimeError("planted")

    monkeypatch.setattr(loader.dataset_obj, "plan", broken)
    with pytest.raises(RuntimeError, match="planted"):
        list(loader)


@pytest.mark.parametrize("prefetch", [True, False])
def test_workers_and_prefetch_change_nothing(
    dataset: JASPERSteeringDataset, prefetch: bool
) -> None:
    alone = list(create_epoch(dataset, 7, prefetch=prefetch))
    loader = create_epoch(dataset, 0, num_workers=2, worker_options={"persistent_workers": True})
    list(loader)
    loader.set_epoch(7)  # reaches the workers that live already
    before = torch.get_rng_state()
    for batch, expected in zip(loader, alone, strict=True):
        assert all(torch.equal(batch[key], expected[key]) for key in expected)
    assert torch.equal(torch.get_rng_state(), before)
    assert loader.state_dict()["digest"] != "0" * 16


# -- resume ----------------------------------------------------------------------------------------


def test_resumes_after_any_batch(dataset: JASPERSteeringDataset) -> None:
    assert_resumes(lambda: Ids(create_epoch(dataset, 3)))


def test_resumes_with_a_partial_last_batch(dataset: JASPERSteeringDataset) -> None:
    assert_resumes(
        lambda: Ids(create_loader(dataset.for_split("train"), "train", 10, drop_last=False))
    )


def test_resumes_with_another_number_of_workers(dataset: JASPERSteeringDataset) -> None:
    counts = iter([0, 0, 1, 0] * 2)
    assert_resumes(lambda: Ids(create_epoch(dataset, 3, num_workers=next(counts))), at=[2, 5])


def test_saved_place_goes_on_in_the_next_epochs(dataset: JASPERSteeringDataset) -> None:
    loader = create_epoch(dataset, 1)
    stream = iter(loader)
    for _ in range(4):
        next(stream)
    state = loader.state_dict()
    expected = [*ids(stream), *ids(loader)]
    again = create_epoch(dataset, 0)
    again.load_state_dict(state)
    found = []
    for epoch in range(again.epoch, 3):
        again.set_epoch(epoch)
        found += ids(again)
    assert found == expected
    assert again.state_dict() == loader.state_dict()


def test_state_is_small_and_plain(dataset: JASPERSteeringDataset) -> None:
    loader = create_epoch(dataset, 99)
    list(loader)
    assert len(json.dumps(loader.state_dict())) < 1000


def test_digest_does_not_depend_on_batches(dataset: JASPERSteeringDataset) -> None:
    digests = set()
    for size in (4, 8, 48):
        loader = create_loader(dataset.for_split("train"), "train", size)
        list(loader)
        digests.add(loader.state_dict()["digest"])
    assert len(digests) == 1
    other = create_loader(dataset.for_split("train"), "train", 8, seed=99)
    list(other)
    assert other.state_dict()["digest"] not in digests


def test_changed_table_is_named(
    folder: Path, dataset: JASPERSteeringDataset, tmp_path: Path
) -> None:
    state = create_epoch(dataset, 0).state_dict()
    copy = shutil.copytree(folder, tmp_path / "copy")
    table = np.load(copy / "steering_residual.npy")
    table[3, 3] += 1
    np.save(copy / "steering_residual.npy", table)
    config = json.loads((copy / "config.json").read_text())
    del config["files"]  # the digests that stay are not believed without them
    (copy / "config.json").write_text(json.dumps(config))
    with pytest.raises(DatasetError) as caught:
        create_loader(copy, "train", 8).load_state_dict(state)
    assert caught.value.problems == ("the table steering_residual has changed",)


def test_state_of_some_rows_is_not_compared_with_all(folder: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(folder, tmp_path / "copy")
    config = json.loads((copy / "config.json").read_text())
    state = create_loader(copy, "train", 8, verify=False).state_dict()
    create_loader(copy, "train", 8).load_state_dict(state)  # noted digests are of all rows
    del config["files"], config["tables"]
    (copy / "config.json").write_text(json.dumps(config))
    state = create_loader(copy, "train", 8, verify=False).state_dict()
    create_loader(copy, "train", 8, verify=False).load_state_dict(state)
    with pytest.raises(DatasetError, match="open it with the same 'verify', or convert it once"):
        create_loader(copy, "train", 8).load_state_dict(state)


@pytest.mark.parametrize(
    ("options", "setting"),
    [
        ({"force_steering": "zero"}, "force_steering"),
        ({"n_neg": 2}, "n_neg"),
        ({"curriculum": "bands"}, "curriculum"),
    ],
)
def test_changed_setting_is_named(
    folder: Path, dataset: JASPERSteeringDataset, options: dict[str, Any], setting: str
) -> None:
    state = create_epoch(dataset, 0).state_dict()
    with pytest.raises(DatasetError, match=f"the setting {setting} has changed"):
        create_loader(folder, "train", 8, **options).load_state_dict(state)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 2}, "format 2, expected 1"),
        ({"seed": 1}, "saved with seed 1, it is now 7"),
        ({"algorithm": "feistel-1"}, "saved with algorithm 'feistel-1'"),
        ({"cursor": 49}, "does not lie in the data"),
        ({"cursor": 16}, "come in another order"),
    ],
)
def test_damaged_state_is_refused(
    dataset: JASPERSteeringDataset, change: dict[str, Any], message: str
) -> None:
    loader = create_epoch(dataset, 0)
    next(iter(loader))
    with pytest.raises(FormatError, match=message):
        loader.load_state_dict({**loader.state_dict(), **change})


# -- ranks -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("world", [2, 3, 4])
def test_ranks_share_each_global_batch(dataset: JASPERSteeringDataset, world: int) -> None:
    alone = create_loader(dataset.for_split("train"), "train", 10, drop_last=False)
    loaders = [
        create_loader(
            dataset.for_split("train"), "train", 10, drop_last=False, distributed=(rank, world)
        )
        for rank in range(world)
    ]
    for whole, *parts in zip(alone, *loaders, strict=True):
        assert torch.equal(torch.cat([each["pair_id"] for each in parts]), whole["pair_id"])
        assert max(len(each["pair_id"]) for each in parts) <= -(-10 // world)
    assert {str(each.state_dict()) for each in loaders} == {str(alone.state_dict())}


def test_wrong_ranks_are_refused(dataset: JASPERSteeringDataset) -> None:
    with pytest.raises(ConfigError, match="rank must be from 0 to 1, got 2"):
        RankInfo(rank=2, world=2)
    with pytest.raises(ConfigError, match="2 is too few for 3 ranks"):
        create_loader(dataset, "train", 2, distributed=(0, 3))
    with pytest.raises(ConfigError, match="needs an initialised process group"):
        create_loader(dataset, "train", 2, distributed=True)


def test_split_without_pairs_is_refused(tmp_path: Path) -> None:
    tables = {**sample_tables(), "val_idx": np.zeros(0, dtype=np.int64)}
    made = write_dataset(tmp_path / "dataset", tables, sample_config())
    with pytest.raises(DatasetError, match="split 'val' has no pairs; use another split"):
        create_loader(made, "val")


def test_wrong_settings_are_refused(folder: Path, dataset: JASPERSteeringDataset) -> None:
    with pytest.raises(DatasetError, match="fewer than one batch of 64"):
        create_loader(dataset, "train", 64)
    with pytest.raises(ConfigError, match="pass n_neg when you open it"):
        create_loader(dataset, "train", 8, n_neg=2)
    meta = JASPERSteeringDataset(folder, device="meta")
    with pytest.raises(ConfigError, match="need no workers"):
        create_loader(meta, "train", 8, num_workers=1)
    with pytest.raises(ConfigError, match="leave pin_memory out"):
        create_loader(meta, "train", 8, pin_memory=True)


# -- under an order policy -------------------------------------------------------------------------


def test_order_policy_of_a_session_takes_the_loader(dataset: JASPERSteeringDataset) -> None:
    expected = {epoch: list(create_epoch(dataset, epoch)) for epoch in (0, 1)}
    loader = create_epoch(dataset, 0)
    with OrderedLoader(loader, OrderConfig(policy="epoch_reseed", seed=5)) as order:
        for epoch in (0, 1):
            order.set_epoch(epoch)
            for batch, wanted in zip(loader, expected[epoch], strict=True):
                assert all(torch.equal(batch[key], wanted[key]) for key in wanted)
                order.commit()
        order.seek(epoch=1, cursor=16)
        assert ids(loader) == ids(expected[1][2:])
    assert ids(loader) == ids(expected[1])


# -- the first batch -------------------------------------------------------------------------------


def test_first_batch_is_valid_and_moves_nothing(dataset: JASPERSteeringDataset) -> None:
    loader = create_epoch(dataset, 0)
    batch = validate_first_batch(loader)
    assert loader.cursor == 0
    assert torch.equal(next(iter(loader))["pair_id"], batch["pair_id"])


def spoiled(key: str, at: tuple[int, ...], value: float) -> Any:
    def change(batch: Batch) -> None:
        batch[key][at] = value

    return change


def replaced(key: str, make: Any) -> Any:
    def change(batch: Batch) -> None:
        batch[key] = make(batch[key])

    return change


def true_source(batch: Batch) -> None:
    batch["negative_embs"][4, 2] = batch["target_source_emb"][4]


PROBLEMS = [
    (lambda batch: batch.pop("relevance"), "relevance is missing"),
    (replaced("steering", lambda value: value[:, :3]), r"steering is \[8, 3\], expected D = 6"),
    (replaced("cluster_id", torch.Tensor.int), r"cluster_id has the type torch.int32"),
    (replaced("relevance", torch.Tensor.tolist), "relevance is list, expected a tensor"),
    (spoiled("question_emb", (2, 1), float("nan")), r"question_emb\[2, 1\] is nan"),
    (spoiled("relevance", (3,), 1.5), r"relevance\[3\] is 1.5, expected 0 to 1"),
    (spoiled("centroid_distance", (0,), -0.5), r"centroid_distance\[0\] is -0.5"),
    (spoiled("steering_variant", (1,), 4), r"steering_variant\[1\] is 4, expected 0 to 3"),
    (spoiled("negative_tiers", (7, 3), 5), r"negative_tiers\[7, 3\] is 5, expected 1 to 4"),
]


class Given:
    """A loader of one batch."""

    def __init__(self, batch: Batch, dataset: Any = None) -> None:
        self.batch, self.dataset = batch, dataset

    def __iter__(self) -> Any:
        return iter([self.batch])


@pytest.mark.parametrize(("change", "message"), PROBLEMS)
def test_wrong_batch_names_key_index_and_value(
    dataset: JASPERSteeringDataset, change: Any, message: str
) -> None:
    batch = dataset.batch(range(8))
    change(batch)
    with pytest.raises(AssertionError, match=message) as caught:
        validate_first_batch(Given(batch))
    assert isinstance(caught.value, DatasetError)


def test_ids_are_checked_against_the_dataset(dataset: JASPERSteeringDataset) -> None:
    batch = dataset.batch(range(8))
    batch["cluster_id"][2] = 5
    with pytest.raises(DatasetError, match=r"cluster_id\[2\] is 5, expected 0 to 4"):
        validate_first_batch(Given(batch, dataset))
    batch = dataset.for_split("val").batch(range(6))
    with pytest.raises(DatasetError, match=r"pair_id\[0\] is \d+, expected a pair of train"):
        validate_first_batch(Given(batch, dataset))


def test_true_source_among_negatives_is_found(
    dataset: JASPERSteeringDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = dataset.batch(range(8))
    true_source(batch)
    with pytest.raises(DatasetError, match=r"negative_embs\[4, 2\] equals target_source_emb\[4\]"):
        validate_first_batch(Given(batch))
    table = dataset._tables.columns["hard_negatives"].copy()
    pair = int(batch["pair_id"][5])
    table[pair, 1] = dataset.true_sources(np.array([pair]))[0]
    monkeypatch.setitem(dataset._tables.columns, "hard_negatives", table)
    with pytest.raises(DatasetError, match=rf"negative_embs\[5, 1\] is source .* pair {pair}"):
        validate_first_batch(Given(dataset.batch(range(8)), dataset))

"""Events in HDF5: as their spec says, z-scored on train, and nothing hostile is read."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch

from midstep.core.errors import ConfigError, FormatError
from midstep.data.sources import DataConfig, SourceData, load_source, make_dataloaders
from midstep.data.sources.source_data import SPLITS, ColumnsDataset

SIZES = {"train": 40, "val": 9, "test": 12}


def write_events(path: Path, *, chunks: bool = False, **changes: Any) -> Path:
    """A valid file; `changes` replaces tables by their name, in all splits."""
    random = np.random.default_rng(3)
    with h5py.File(path, "w") as file:
        for split, count in SIZES.items():
            shift = 100 if split == "test" else 5
            tables = {
                "tokens_cont": random.normal(shift, 3, (count, 18, 4)).astype(np.float32),
                "tokens_id": random.integers(0, 5, (count, 18), dtype=np.uint8),
                "globals": random.normal(shift, 3, (count, 2)),
                "label": np.arange(count) % 2 * (split == "test"),
            }
            tables["tokens_id"][:, 0] = 4
            for name, table in tables.items():
                value = changes.get(name, lambda table: table)(table)
                if value is not None:
                    file.create_dataset(
                        f"{split}/{name}",
                        data=value,
                        chunks=(3, *value.shape[1:]) if chunks else None,
                        compression="gzip" if chunks else None,
                    )
    return path


@pytest.fixture
def config(tmp_path: Path) -> DataConfig:
    return DataConfig(name="h5", path=str(write_events(tmp_path / "events.h5")), batch_size=8)


def all_of(data: SourceData, split: Any) -> dict[str, torch.Tensor]:
    return dict(data.splits[split].__getitems__(range(len(data.splits[split]))))


def test_batches_have_the_shapes_of_the_spec(config: DataConfig) -> None:
    *loaders, meta = make_dataloaders(config, seed=1)
    assert (meta["n_tokens"], meta["cont_dim"], meta["globals"]) == (18, 4, 2)
    assert (meta["num_types"], meta["classes"], meta["splits"]) == (5, 0, SIZES)
    for loader in loaders:
        batch = next(iter(loader))
        assert {name: (tuple(each.shape), each.dtype) for name, each in batch.items()} == {
            "tokens_cont": ((8, 18, 4), torch.float32),
            "tokens_id": ((8, 18), torch.int64),
            "globals": ((8, 2), torch.float32),
            "label": ((8,), torch.int64),
        }


def test_zscores_come_from_the_real_tokens_of_train_alone(config: DataConfig) -> None:
    data = load_source(config)
    train, test = all_of(data, "train"), all_of(data, "test")
    with h5py.File(str(config.path)) as file:
        raw = {name: file[f"train/{name}"][...] for name in ("tokens_cont", "tokens_id", "globals")}
        raw_test = file["test/globals"][...]
    real = raw["tokens_cont"][raw["tokens_id"] > 0].astype(np.float64)
    expected = (raw["tokens_cont"] - real.mean(axis=0)) / real.std(axis=0)
    expected[raw["tokens_id"] == 0] = 0
    np.testing.assert_allclose(train["tokens_cont"], expected, atol=1e-5)
    mean, std = raw["globals"].mean(axis=0), raw["globals"].std(axis=0)
    np.testing.assert_allclose(test["globals"], (raw_test - mean) / std, atol=1e-4)


def test_rows_in_any_order_equal_single_samples(config: DataConfig) -> None:
    dataset = load_source(config).splits["train"]
    for rows in ([7, 0, 39, 7], [3, 4, 5, 6], []):
        batch = dataset.__getitems__(rows)
        assert len(batch["label"]) == len(rows)
        for index, row in enumerate(rows):
            assert all(torch.equal(batch[key][index], value) for key, value in dataset[row].items())
    with pytest.raises(IndexError):
        dataset[40]


def test_chunks_and_compression_change_neither_values_nor_fingerprint(
    config: DataConfig, tmp_path: Path
) -> None:
    packed = replace(config, path=str(write_events(tmp_path / "packed.h5", chunks=True)))
    first, second = load_source(config), load_source(packed)
    assert first.fingerprint == second.fingerprint
    assert all(
        torch.equal(value, all_of(second, name)[key])
        for name in SPLITS
        for key, value in all_of(first, name).items()
    )
    other = write_events(tmp_path / "other.h5", globals=lambda table: table + 1)
    assert load_source(replace(config, path=str(other))).fingerprint != first.fingerprint


@pytest.mark.parametrize("where", ["memory", "disk"])
def test_cached_samples_have_the_same_bytes(
    where: Any, config: DataConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    plain = load_source(config)
    for _ in range(2):  # the first one fills the cache, the second one reads it
        cached = load_source(replace(config, cache=where))
        for name in SPLITS:
            assert isinstance(cached.splits[name], ColumnsDataset)
            assert cached.splits[name].fingerprint() == plain.splits[name].fingerprint()
            ours, theirs = all_of(plain, name), all_of(cached, name)
            assert ours.keys() == theirs.keys()
            assert all(torch.equal(ours[key], theirs[key]) for key in ours)
    files = list((tmp_path / "cache").rglob("*.*"))
    assert [file.suffix for file in files] == ([".safetensors"] if where == "disk" else [])


def test_a_damaged_cache_file_is_written_again(
    config: DataConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    config = replace(config, cache="disk")
    load_source(config)
    (file,) = (tmp_path / "cache").rglob("*.safetensors")
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    assert len(all_of(load_source(config), "test")["label"]) == SIZES["test"]
    assert file.read_bytes() == whole


def test_a_dataset_can_be_sent_to_a_worker_and_sees_a_changed_file(config: DataConfig) -> None:
    dataset = load_source(config).splits["val"]
    expected = dataset[3]
    copy = pickle.loads(pickle.dumps(dataset))
    assert all(torch.equal(copy[3][key], value) for key, value in expected.items())
    late = pickle.loads(pickle.dumps(dataset))
    write_events(Path(str(config.path)).with_name("new.h5")).replace(str(config.path))
    with pytest.raises(FormatError, match="was changed while it was in use"):
        late[3]


# -- wrong and hostile files ----------------------------------------------------------------------


def wrong_shape(path: Path) -> None:
    write_events(path, tokens_cont=lambda table: table[:, :, 0])


def other_rows(path: Path) -> None:
    write_events(path, globals=lambda table: table[:-1])


def text_types(path: Path) -> None:
    write_events(path, tokens_id=lambda table: table.astype("S3"))


def not_finite(path: Path) -> None:
    write_events(path, globals=lambda table: np.where(table > table.mean(), np.nan, table))


def negative_type(path: Path) -> None:
    write_events(path, tokens_id=lambda table: table.astype(np.int64) - 3)


def missing_table(path: Path) -> None:
    write_events(path, globals=lambda table: None)


def missing_split(path: Path) -> None:
    write_events(path)
    with h5py.File(path, "a") as file:
        del file["val"]


def replaced(path: Path, change: Callable[[h5py.Group], object]) -> None:
    """A valid file whose table `train/globals` was replaced."""
    write_events(path)
    shutil.copy(path, path.with_name("other.h5"))
    with h5py.File(path, "a") as file:
        del file["train/globals"]
        change(file["train"])


def external_link(path: Path) -> None:
    link = h5py.ExternalLink("other.h5", "train/globals")
    replaced(path, lambda group: group.__setitem__("globals", link))


def soft_link(path: Path) -> None:
    replaced(path, lambda group: group.__setitem__("globals", h5py.SoftLink("/val/globals")))


def linked_group(path: Path) -> None:
    write_events(path)
    shutil.copy(path, path.with_name("other.h5"))
    with h5py.File(path, "a") as file:
        del file["train"]
        file["train"] = h5py.ExternalLink("other.h5", "train")


def external_storage(path: Path) -> None:
    path.with_name("raw").write_bytes(bytes(640))
    external = [(str(path.with_name("raw")), 0, 640)]
    replaced(path, lambda group: group.create_dataset("globals", (40, 2), "f8", external=external))


def virtual(path: Path) -> None:
    layout = h5py.VirtualLayout((40, 2), "f8")
    layout[...] = h5py.VirtualSource("other.h5", "train/globals", (40, 2))
    replaced(path, lambda group: group.create_virtual_dataset("globals", layout))


def absurd_rows(path: Path) -> None:
    replaced(path, lambda group: group.create_dataset("globals", (1 << 40, 2), "f8", chunks=(9, 2)))


def absurd_width(path: Path) -> None:
    replaced(
        path, lambda group: group.create_dataset("globals", (40, 1 << 30), "f8", chunks=(1, 9))
    )


def not_hdf5(path: Path) -> None:
    path.write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(100))


WRONG = {
    wrong_shape: r"train/tokens_cont has the shape \[40, 18\], expected events × tokens × values",
    other_rows: r"train/globals has the shape \[39, 2\], which does not fit tokens_cont",
    text_types: "train/tokens_id has the type .*, expected whole numbers",
    not_finite: "train/globals: row .* not finite",
    negative_type: "train/tokens_id: row 0 has a value that is not from 0",
    missing_table: "train/globals is missing",
    missing_split: "has no group 'val'",
    external_link: "train/globals is a ExternalLink, which is not followed",
    soft_link: "train/globals is a SoftLink, which is not followed",
    linked_group: "train is a ExternalLink, which is not followed",
    external_storage: "train/globals is stored in another file",
    virtual: "train/globals is a virtual dataset",
    absurd_rows: "train/globals has the shape .* the file holds 0",
    absurd_width: "train/globals has the shape .* an event may have",
    not_hdf5: "cannot be read as an HDF5 file",
}


@pytest.mark.parametrize("write", WRONG, ids=lambda write: write.__name__)
def test_a_wrong_file_is_refused_in_one_line_that_names_it(
    write: Callable[[Path], None], tmp_path: Path
) -> None:
    path = tmp_path / "wrong.h5"
    write(path)
    with pytest.raises(FormatError, match=WRONG[write]) as caught:
        load_source(DataConfig(name="h5", path=str(path)))
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_path_or_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="name it with data"):
        load_source(DataConfig(name="h5"))
    for path in (tmp_path / "none.h5", tmp_path):
        with pytest.raises(ConfigError, match="give the path of an existing file"):
            load_source(DataConfig(name="h5", path=str(path)))


@pytest.mark.parametrize(
    "text", [b"[]", b"{", b'{"type_names": [1]}', b'{"token_features": ["px"]}', b'{"units": {}}']
)
def test_a_description_that_does_not_fit_is_refused(text: bytes, tmp_path: Path) -> None:
    path = write_events(tmp_path / "events.h5")
    with h5py.File(path, "a") as file:
        file.attrs["midstep"] = np.bytes_(text)
    with pytest.raises(FormatError, match="attribute 'midstep'") as caught:
        load_source(DataConfig(name="h5", path=str(path)))
    assert str(path) in str(caught.value)


def test_labels_that_differ_in_train_are_classes(tmp_path: Path) -> None:
    path = write_events(tmp_path / "events.h5", label=lambda table: np.arange(len(table)) % 3)
    assert load_source(DataConfig(name="h5", path=str(path))).spec.classes == 3

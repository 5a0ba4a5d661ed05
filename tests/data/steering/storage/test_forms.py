"""Three forms of one dataset, and what is said when one is broken."""

from __future__ import annotations

import json
import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch

from midstep.core.errors import DatasetError, MissingExtraError, StorageError
from midstep.data import (
    DatasetConfig,
    JASPERSteeringDataset,
    Ragged,
    convert,
    create_loader,
    open_tables,
    write_dataset,
)
from midstep.data.steering.storage.layout import FORMS, SPLITS, TABLES
from tests.data.steering.table_samples import NEGATIVES, PAIRS, sample_config, sample_tables


def assert_equal(left: dict[str, torch.Tensor], right: dict[str, torch.Tensor]) -> None:
    assert left.keys() == right.keys()
    for key, value in left.items():
        assert value.dtype == right[key].dtype
        assert value.shape == right[key].shape
        assert value.numpy().tobytes() == right[key].numpy().tobytes(), key


# -- round trip ------------------------------------------------------------------------------------


@pytest.mark.parametrize("split", SPLITS)
def test_three_forms_give_equal_batches(folders: dict[str, Path], split: str) -> None:
    loaders = [create_loader(folders[form], split, batch_size=8, drop_last=False) for form in FORMS]
    for first, *others in zip(*loaders, strict=True):
        for other in others:
            assert_equal(first, other)


@pytest.mark.parametrize("form", FORMS)
def test_conversion_keeps_every_table(folders: dict[str, Path], form: Any, tmp_path: Path) -> None:
    tables = open_tables(folders[form])
    for other in FORMS:
        back = open_tables(convert(tables, tmp_path / other, other))
        assert back.form == other
        assert back.config.tables == tables.config.tables
        for name in TABLES:
            mine, theirs = tables[name], back[name]
            if isinstance(mine, Ragged):
                assert mine.tolist() == theirs.tolist()
            else:
                assert mine.dtype == theirs.dtype
                assert mine.tobytes() == theirs.tobytes()


def test_written_tables_are_read_only(folders: dict[str, Path]) -> None:
    for form in FORMS:
        with pytest.raises(ValueError, match="read-only"):
            open_tables(folders[form])["pair_index"][0, 0] = 1


def test_half_precision_is_widened_in_the_copy(folder: Path, tmp_path: Path) -> None:
    half = convert(folder, tmp_path / "half", precision="float16")
    assert open_tables(half)["steering_residual"].dtype == np.float16
    assert open_tables(half)["pair_relevance"].dtype == np.float32
    batch, whole = (JASPERSteeringDataset(each).batch(range(20)) for each in (half, folder))
    assert batch["negative_embs"].dtype == torch.float32
    assert torch.equal(batch["negative_embs"], whole["negative_embs"])  # stored as halves there too
    assert torch.equal(batch["question_emb"], whole["question_emb"].half().float())


def test_hand_written_older_files_load(folder: Path, tmp_path: Path) -> None:
    old = tmp_path / "old"
    old.mkdir()
    tables = open_tables(folder)
    for name, table in tables.items():
        if isinstance(table, Ragged):
            torch.save(table.tolist(), old / f"{name}.pt")
        else:
            torch.save(torch.from_numpy(table.copy()), old / f"{name}.pt")
    config = {
        name: value
        for name, value in tables.config.to_json().items()
        if name not in {"files", "tables", "curriculum", "format_version", "steering_definition"}
    }
    config.update(storage_format="pt", split_ratios=[0.8, 0.1, 0.1], made_by="hand")
    (old / "config.json").write_text(json.dumps(config))
    made = JASPERSteeringDataset(old)
    assert made.config.steering_definition == "stored"
    assert made.config.extra == {"made_by": "hand"}
    assert open_tables(old)["pair_keyword_ids"].tolist() == tables["pair_keyword_ids"].tolist()
    assert_equal(made.batch(range(48)), JASPERSteeringDataset(folder).batch(range(48)))


def write_by_hand(folder: Path, tables: Any, form: str) -> None:
    """As the listing of the layout says, with nothing of ours."""
    groups = {name: spec.group for name, spec in TABLES.items()}
    arrays = {
        (groups[name], f"{name}_{end}" if end else name): np.array(part)
        for name, table in tables.items()
        for end, part in (table.parts() if isinstance(table, Ragged) else {"": table}).items()
    }
    if form == "hdf5":
        with h5py.File(folder / "dataset.h5", "w") as file:
            for (group, name), array in arrays.items():
                file[f"{group}/{name}"] = array
        return
    for (_, name), array in arrays.items():
        if form == "memmap":
            np.save(folder / f"{name}.npy", array)
        else:
            torch.save(torch.from_numpy(array), folder / f"{name}.pt")


@pytest.mark.parametrize("form", FORMS)
def test_files_written_by_hand_load_in_every_form(folder: Path, tmp_path: Path, form: str) -> None:
    made, tables = tmp_path / "made", open_tables(folder)
    made.mkdir()
    write_by_hand(made, tables, form)
    required = {
        **tables.config.counts,
        "split_ratios": {"train": 0.8, "val": 0.1, "test": 0.1},
        "steering_probabilities": dict(tables.config.steering_probabilities),
        "storage_format": form,
        "random_seed": tables.config.random_seed,
    }
    (made / "config.json").write_text(json.dumps(required))
    for split in SPLITS:
        found, wanted = (JASPERSteeringDataset(each, split) for each in (made, folder))
        assert_equal(found.batch(range(len(found))), wanted.batch(range(len(wanted))))


def test_narrow_whole_numbers_and_doubles_are_accepted(tmp_path: Path) -> None:
    tables = sample_tables()
    tables["pair_cluster_id"] = tables["pair_cluster_id"].astype(np.uint8)
    tables["pair_relevance"] = tables["pair_relevance"].astype(np.float64)
    written = open_tables(write_dataset(tmp_path / "new", tables, sample_config()))
    assert written["pair_cluster_id"].dtype == np.int64
    assert written["pair_relevance"].dtype == np.float32


def test_moved_folder_opens(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "a")
    (tmp_path / "a").rename(tmp_path / "b")
    assert len(JASPERSteeringDataset(tmp_path / "b")) == 48


def test_form_is_found_when_config_names_another(folder: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(folder, tmp_path / "copy")
    change_config(copy, storage_format="pt")
    assert open_tables(copy).form == "memmap"
    with pytest.raises(DatasetError, match=r"train_idx\.pt is missing"):
        open_tables(copy, "pt")


def test_existing_folder_is_left_alone(folder: Path) -> None:
    before = sorted(folder.iterdir())
    with pytest.raises(StorageError, match="already"):
        write_dataset(folder, sample_tables(), sample_config())
    assert sorted(folder.iterdir()) == before
    assert not list(folder.parent.glob(".*"))


# -- corruption ------------------------------------------------------------------------------------


def change_config(folder: Path, **changes: Any) -> None:
    config = json.loads((folder / "config.json").read_text())
    config.update(changes)
    (folder / "config.json").write_text(
        json.dumps({key: value for key, value in config.items() if value is not None})
    )


def change_table(folder: Path, name: str, change: Callable[[Any], Any]) -> None:
    path = folder / f"{name}.npy"
    np.save(path, change(np.load(path)))


def put(at: tuple[int, ...], value: Any) -> Callable[[Any], Any]:
    def change(table: Any) -> Any:
        table[at] = value
        return table

    return change


@pytest.fixture
def copy(folder: Path, tmp_path: Path) -> Path:
    """A copy whose files have no hashes, so that values are all there is to go by."""
    made = shutil.copytree(folder, tmp_path / "copy")
    change_config(made, files=None, tables=None)
    return made


VALUES = [
    ("hard_negatives", put((3, 1), 40), r"hard_negatives\.npy\[3, 1\] is 40, expected 0 to 39"),
    ("pair_index", put((5, 0), -1), r"pair_index\.npy column 0\[5\] is -1, expected 0 to 24"),
    ("pair_cluster_id", put((2,), 5), r"pair_cluster_id\.npy\[2\] is 5, expected 0 to 4"),
    ("negative_tiers", put((0, 2), 0), r"negative_tiers\.npy\[0, 2\] is 0, expected 1 to 4"),
    ("question_embs", put((4, 2), np.nan), r"question_embs\.npy\[4, 2\] is nan, expected a finite"),
    ("steering_residual", put((9, 0), np.inf), r"steering_residual\.npy\[9, 0\] is inf"),
    ("pair_relevance", put((7,), 1.5), r"pair_relevance\.npy\[7\] is 1\.5, expected 0 to 1"),
    ("centroid_distances", put((1,), 2.5), r"centroid_distances\.npy\[1\] is 2\.5"),
    ("train_idx", put((1,), PAIRS), rf"train_idx\.npy\[1\] is {PAIRS}, expected 0 to {PAIRS - 1}"),
    ("pair_keyword_ids_values", put((0,), 9), r"pair_keyword_ids_offsets\.npy\[0\] holds .* 9"),
    ("pair_keyword_ids_offsets", put((-1,), 999), r"offsets from 0 to 999"),
    ("source_embs", lambda table: table[:-1], r"source_embs\.npy has the shape \[39, 6\].*\[40, 6"),
    ("source_embs", lambda table: table.astype(int), r"source_embs\.npy has the type int64"),
]


@pytest.mark.parametrize(("name", "change", "message"), VALUES)
def test_wrong_value_names_file_index_and_value(
    copy: Path, name: str, change: Any, message: str
) -> None:
    change_table(copy, name, change)
    with pytest.raises(DatasetError, match=message):
        JASPERSteeringDataset(copy)


@pytest.mark.parametrize("form", ["pt", "hdf5"])
@pytest.mark.parametrize(("name", "change", "message"), [VALUES[at] for at in (0, 2, 4, 6, 8, 11)])
def test_other_forms_name_file_index_and_value_too(
    folder: Path, tmp_path: Path, form: str, name: str, change: Any, message: str
) -> None:
    made, tables = tmp_path / "made", dict(open_tables(folder))
    made.mkdir()
    tables[name] = change(np.array(tables[name]))
    write_by_hand(made, tables, form)
    shutil.copy(folder / "config.json", made)
    change_config(made, files=None, tables=None, storage_format=form)
    label = rf"{name}\.pt" if form == "pt" else rf"dataset\.h5:(\w+/)?{name}"
    with pytest.raises(DatasetError, match=message.replace(rf"{name}\.npy", label)):
        JASPERSteeringDataset(made)


def test_splits_that_overlap_are_refused(copy: Path) -> None:
    taken = int(np.load(copy / "train_idx.npy")[4])
    change_table(copy, "val_idx", put((2,), taken))
    with pytest.raises(
        DatasetError, match=rf"val_idx\.npy\[2\] is pair {taken}, .* train_idx\.npy"
    ):
        JASPERSteeringDataset(copy)


def test_pair_twice_in_a_split_is_refused(copy: Path) -> None:
    change_table(copy, "train_idx", lambda ids: np.append(ids[:-1], ids[0]))
    with pytest.raises(DatasetError, match=r"train_idx\.npy\[47\] is pair \d+ a second time"):
        JASPERSteeringDataset(copy)


def test_own_source_among_negatives_is_refused(copy: Path) -> None:
    source = int(np.load(copy / "pair_index.npy")[8, 1])
    change_table(copy, "hard_negatives", put((8, 2), source))
    with pytest.raises(DatasetError, match=rf"hard_negatives\.npy\[8, 2\] is {source}, the pair's"):
        JASPERSteeringDataset(copy)


def test_several_problems_are_one_error(copy: Path) -> None:
    change_table(copy, "pair_cluster_id", put((2,), 5))
    change_table(copy, "question_embs", put((4, 2), np.nan))
    with pytest.raises(DatasetError) as caught:
        JASPERSteeringDataset(copy)
    assert len(caught.value.problems) == 2
    assert isinstance(caught.value, AssertionError)


@pytest.mark.parametrize("cut", [0, 10, 100, 500])
def test_cut_file_is_refused(copy: Path, cut: int) -> None:
    path = copy / "question_embs.npy"
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(DatasetError, match=r"question_embs\.npy is not a complete \.npy file"):
        JASPERSteeringDataset(copy)


@pytest.mark.parametrize("form", FORMS)
def test_changed_file_is_caught_by_its_hash(
    folders: dict[str, Path], form: str, tmp_path: Path
) -> None:
    made = shutil.copytree(folders[form], tmp_path / "made")
    path = next(path for path in sorted(made.iterdir()) if path.name.startswith(("d", "q")))
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(content)
    with pytest.raises(DatasetError, match=rf"{path.name} has changed since it was written"):
        JASPERSteeringDataset(made)


def test_missing_files_are_all_named(copy: Path) -> None:
    (copy / "val_idx.npy").unlink()
    (copy / "source_embs.npy").unlink()
    with pytest.raises(DatasetError) as caught:
        open_tables(copy)
    assert caught.value.problems == ("val_idx.npy is missing", "source_embs.npy is missing")
    assert "is incomplete or damaged; restore it or build it again" in str(caught.value)


def test_missing_and_wrong_keys_of_config_are_all_named(copy: Path) -> None:
    change_config(
        copy,
        n_neg=None,
        n_pairs="many",
        steering_probabilities={"zero": 0.5, "centroid": 0.1, "keyword": 0.1, "residual": 0.1},
    )
    with pytest.raises(DatasetError) as caught:
        open_tables(copy)
    assert set(caught.value.problems) == {
        "n_neg is missing",
        "n_pairs must be a whole number of at least 1, got 'many'",
        "steering_probabilities must sum to 1, got 0.8",
    }


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format_version": 2}, "format_version must be one of 1, got 2"),
        ({"curriculum": {"name": "steep"}}, "schedule 'steep' is unknown"),
        ({"curriculum": {"name": "bands", "epoch": 3}}, "bands has no setting 'epoch'"),
        ({"steering_definition": "mine"}, "steering_definition must be one of standard"),
        ({"storage_format": "zip"}, "storage_format must be one of memmap, pt, hdf5, got 'zip'"),
        ({"split_ratios": {"train": 1}}, "split_ratios must have the keys train, val, test"),
        ({"random_seed": True}, "random_seed must be a whole number, got True"),
        ({"files": {"a.npy": 3}}, "files.a.npy must be a SHA-256"),
    ],
)
def test_wrong_config_says_what_was_expected(
    copy: Path, changes: dict[str, Any], message: str
) -> None:
    change_config(copy, **changes)
    with pytest.raises(DatasetError, match=message):
        open_tables(copy)


@pytest.mark.parametrize("text", ["", "[1]", "{", '{"n_neg": 1, "n_neg": 2}'])
def test_config_that_is_no_object_is_refused(copy: Path, text: str) -> None:
    (copy / "config.json").write_text(text)
    with pytest.raises(DatasetError, match=r"config\.json"):
        open_tables(copy)


def test_config_survives_its_file() -> None:
    config = sample_config(curriculum={"name": "bands"}, extra={"note": "kept"})
    assert DatasetConfig.from_json(config.to_json()) == config


def test_wrong_tables_are_not_written(tmp_path: Path) -> None:
    tables = sample_tables()
    del tables["keyword_embs"]
    tables["pair_index"] = tables["pair_index"][:, :1]
    with pytest.raises(DatasetError) as caught:
        write_dataset(tmp_path / "new", tables, sample_config())
    assert len(caught.value.problems) == 2
    assert not list(tmp_path.iterdir())


# -- files from elsewhere --------------------------------------------------------------------------


class Planted:
    """Would make a file if it were unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return (os.mkdir, (str(self.path),))


def test_pickles_are_never_run(folders: dict[str, Path], copy: Path, tmp_path: Path) -> None:
    planted = pickle.dumps(Planted(tmp_path / "planted"))
    (copy / "question_embs.npy").write_bytes(planted)
    with pytest.raises(DatasetError, match=r"question_embs\.npy"):
        open_tables(copy)
    old = shutil.copytree(folders["pt"], tmp_path / "old")
    change_config(old, files=None)
    (old / "question_embs.pt").write_bytes(planted)
    with pytest.raises(DatasetError, match=r"question_embs\.pt is not a complete file of tensors"):
        open_tables(old)
    assert not (tmp_path / "planted").exists()


@pytest.mark.parametrize(
    ("lists", "message"),
    [
        ([[1], 2], r"pair_keyword_ids\.pt\[1\] is 2, expected a list"),
        ([[1], [0.5]], r"pair_keyword_ids\.pt\[1\] holds 0\.5"),
        ([[1]], r"pair_keyword_ids\.pt \(1 lists\) has the shape \[2\], config\.json says \[61\]"),
    ],
)
def test_wrong_list_of_lists_is_refused(
    folders: dict[str, Path], tmp_path: Path, lists: Any, message: str
) -> None:
    old = shutil.copytree(folders["pt"], tmp_path / "old")
    change_config(old, files=None, tables=None)
    for end in ("offsets", "values"):
        (old / f"pair_keyword_ids_{end}.pt").unlink()
    torch.save(lists, old / "pair_keyword_ids.pt")
    with pytest.raises(DatasetError, match=message):
        open_tables(old)


@pytest.fixture
def hdf5(folders: dict[str, Path], tmp_path: Path) -> Path:
    made = shutil.copytree(folders["hdf5"], tmp_path / "hdf5")
    change_config(made, files=None, tables=None)
    return made


NAME = "negatives/hard_negatives"


def external_link(file: Any, folder: Path) -> None:
    file[NAME] = h5py.ExternalLink("elsewhere.h5", NAME)


def soft_link(file: Any, folder: Path) -> None:
    file[NAME] = h5py.SoftLink("/negatives/negative_tiers")


def external_storage(file: Any, folder: Path) -> None:
    secret = folder / "secret.bin"
    secret.write_bytes(bytes(PAIRS * NEGATIVES * 8))
    shape = (PAIRS, NEGATIVES)
    file.create_dataset(NAME, shape, "i8", external=[(str(secret), 0, h5py.h5f.UNLIMITED)])


def virtual(file: Any, folder: Path) -> None:
    layout = h5py.VirtualLayout((PAIRS, NEGATIVES), "i8")
    layout[:] = h5py.VirtualSource("elsewhere.h5", NAME, (PAIRS, NEGATIVES))
    file.create_virtual_dataset(NAME, layout)


def hollow(file: Any, folder: Path) -> None:
    file.create_dataset(NAME, (PAIRS, NEGATIVES), "i8", chunks=(1, NEGATIVES))


@pytest.mark.parametrize(
    ("plant", "message"),
    [
        (external_link, "is a ExternalLink, which is not followed"),
        (soft_link, "is a SoftLink, which is not followed"),
        (external_storage, "is stored in another file"),
        (virtual, "is a virtual dataset"),
        (hollow, r"has the shape \[60, 4\], 1920 bytes; the file holds 0"),
        (lambda file, folder: None, "is missing"),
    ],
)
def test_hdf5_that_points_elsewhere_is_refused(hdf5: Path, plant: Any, message: str) -> None:
    with h5py.File(hdf5 / "dataset.h5", "a") as file:
        del file[NAME]
        plant(file, hdf5)
    with pytest.raises(DatasetError, match=message):
        open_tables(hdf5)


def test_compressed_hdf5_from_elsewhere_loads(hdf5: Path) -> None:
    with h5py.File(hdf5 / "dataset.h5", "a") as file:
        kept = file[NAME][:]
        del file[NAME]
        file.create_dataset(NAME, data=kept, compression="gzip", shuffle=True)
    assert np.array_equal(open_tables(hdf5)["hard_negatives"], kept)


def test_missing_library_names_the_extra(hdf5: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "h5py", None)
    with pytest.raises(MissingExtraError, match=r"midstep\[data\]"):
        open_tables(hdf5)

"""Checkpoints: their places, links and retention, versions, fingerprints, files of others."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
import types
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.data import Subset

from midstep.core.errors import ConfigError, FormatError, StorageError
from midstep.data.random_state import RandomState
from midstep.session.checkpoint import manifest
from midstep.session.checkpoint.checkpoint_folders import FILES
from midstep.session.checkpoint.checkpoint_store import (
    CheckpointError,
    CheckpointStore,
    read_checkpoint,
)
from midstep.session.checkpoint.fingerprint import (
    dataset_fingerprint,
    differences,
    fingerprints,
    hash_value,
)
from midstep.session.checkpoint.foreign_weights import load_foreign
from midstep.session.checkpoint.hashes import digest
from midstep.session.checkpoint.manifest import Upgrade
from midstep.session.config import SessionConfig
from midstep.session.engine.resume import find_resume_point
from midstep.session.state.snapshot import Snapshot
from tests.session.same import assert_same

PAGE = Path(__file__).parents[2] / "docs/checkpoint-format.md"


def snapshot(step: int, timeline: int = 0, **more: object) -> Snapshot:
    model = torch.nn.Linear(2, 3)
    return Snapshot.take({"model": model}, step=step, timeline=timeline, **more)  # type: ignore[arg-type]


def names(run_dir: Path) -> list[str]:
    return sorted(path.name for path in (run_dir / "checkpoints").iterdir())


# -- places ----------------------------------------------------------------------------------------


def test_everything_of_a_snapshot_comes_back(tmp_path: Path) -> None:
    kept = snapshot(
        12,
        2,
        epoch=3,
        cursor=40,
        config={"lr": 0.1, "betas": (0.9, float("inf")), "name": "größe"},
        fingerprints={"seed": 7, "model": {"weight": "(3, 2) float32"}},
    )
    path = CheckpointStore(tmp_path).save(kept)
    assert path == tmp_path / "checkpoints/12.t2"
    assert {entry.name for entry in path.iterdir()} == set(FILES)
    back = CheckpointStore(tmp_path).load(12)
    for name in ("step", "epoch", "cursor", "timeline", "config", "fingerprints"):
        assert_same(getattr(back, name), getattr(kept, name))
    assert_same(back.state_tree(), kept.state_tree())


def test_the_newest_is_the_last_step_of_the_last_timeline(tmp_path: Path) -> None:
    kept = CheckpointStore(tmp_path)
    for step, timeline in [(10, 0), (20, 0), (8, 1), (9, 1), (5, 2)]:
        kept.save(snapshot(step, timeline))
    assert kept.steps == [5, 9, 8, 20, 10]
    assert (kept.load().step, kept.load(timeline=0).step) == (5, 20)
    assert (tmp_path / "last").resolve().name == "5.t2"
    with pytest.raises(ConfigError, match=r"no checkpoint of step 7 .*5\.t2, 9\.t1"):
        kept.load(7)


def test_a_step_saved_again_takes_the_place_of_the_first(tmp_path: Path) -> None:
    kept = CheckpointStore(tmp_path)
    kept.save(snapshot(4, config={"lr": 1}))
    kept.save(snapshot(4, config={"lr": 2}))
    assert names(tmp_path) == ["4.2"]
    assert kept.load(4).config == {"lr": 2}
    kept.save(snapshot(4, 1))
    assert names(tmp_path) == ["4.2", "4.t1"]


def test_links_lead_to_the_last_and_the_best(tmp_path: Path) -> None:
    kept = CheckpointStore(tmp_path)
    first = kept.save(snapshot(1), best=True)
    second = kept.save(snapshot(2))
    assert str((tmp_path / "last").readlink()) == "checkpoints/2"
    assert str((tmp_path / "model").readlink()) == "best_val"
    assert (tmp_path / "model").resolve() == first
    assert read_checkpoint(tmp_path / "model").step == 1
    kept.mark_best(second)
    assert (tmp_path / "model").resolve() == second


def test_a_file_with_the_name_of_a_link_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "best_val").write_text("mine")
    with pytest.raises(StorageError, match="something else has that name"):
        CheckpointStore(tmp_path).save(snapshot(1), best=True)
    assert (tmp_path / "best_val").read_text() == "mine"
    assert CheckpointStore(tmp_path).load().step == 1


def test_old_ones_go_but_never_the_best_nor_what_somebody_else_put_there(tmp_path: Path) -> None:
    kept = CheckpointStore(tmp_path, keep=3)
    folder = tmp_path / "checkpoints"
    kept.save(snapshot(1), best=True)
    noted = kept.save(snapshot(2))
    (noted / "note.txt").write_text("keep this one")
    (folder / "0").mkdir()
    (folder / "mine").mkdir()
    (folder / "007").mkdir()
    (folder / "3.pt").write_text("")
    for step in range(3, 9):
        kept.save(snapshot(step))
    assert names(tmp_path) == ["0", "007", "1", "2", "3.pt", "6", "7", "8", "mine"]


def test_an_old_one_that_cannot_be_removed_does_not_fail_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> bool:
        raise StorageError("cannot remove it")

    kept = CheckpointStore(tmp_path, keep=1)
    kept.save(snapshot(1))
    monkeypatch.setattr("midstep.session.checkpoint.checkpoint_folders.remove_folder", refuse)
    assert kept.save(snapshot(2)).name == "2"
    assert "cannot remove it" in caplog.text


def test_no_checkpoint_is_none_and_keeping_none_is_refused(tmp_path: Path) -> None:
    assert CheckpointStore(tmp_path).newest_valid() is None
    with pytest.raises(ConfigError, match="nothing to load"):
        CheckpointStore(tmp_path).load()
    with pytest.raises(ConfigError, match="at least 1"):
        CheckpointStore(tmp_path, keep=0)


def test_a_state_that_cannot_be_saved_leaves_no_trace(tmp_path: Path) -> None:
    class Odd:
        def state_dict(self) -> dict[str, object]:
            return {"call": [print]}

        def load_state_dict(self, state: object) -> None:
            raise AssertionError

    with pytest.raises(ConfigError, match=r"odd\.call\.0 is a .*leave code out"):
        Snapshot.take({"odd": Odd()}, step=1)
    with pytest.raises(ConfigError, match=r"config.*cannot be saved"):
        CheckpointStore(tmp_path).save(
            Snapshot(step=1, states={}, random=RandomState.take(), config={"f": torch.ones(1)})
        )
    assert names(tmp_path) == []


# -- versions --------------------------------------------------------------------------------------


def rewrite(path: Path, **changes: object) -> None:
    """Change fields of a manifest and make its hash true again."""
    file = path / "manifest.json"
    document = {**json.loads(file.read_text()), **changes}
    document.pop("whole")
    body = json.dumps(document, separators=(",", ":")).encode()[:-1]
    file.write_bytes(body + f',"whole":"{digest(body)}"}}\n'.encode())


def test_an_unknown_version_is_refused_by_name(tmp_path: Path) -> None:
    kept = CheckpointStore(tmp_path)
    path = kept.save(snapshot(3))
    for version in (99, 0, "1", True, None):
        rewrite(path, version=version, midstep="9.9.9")
        wanted = f"format version {version!r}, written by midstep 9.9.9, is not known"
        with pytest.raises(CheckpointError, match=re.escape(wanted)):
            kept.load()


def test_an_older_version_is_brought_up_step_by_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = CheckpointStore(tmp_path)
    path = kept.save(snapshot(3, cursor=5))
    rewrite(path, version=-1)
    first = Upgrade(manifest=lambda old: {**old, "cursor": old["cursor"] + 1})
    second = Upgrade(
        manifest=lambda old: {**old, "cursor": old["cursor"] * 2},
        state=lambda tree: {**tree, "net": tree["model"]},
    )
    monkeypatch.setitem(manifest.UPGRADES, -1, first)
    monkeypatch.setitem(manifest.UPGRADES, 0, second)
    assert kept.load().cursor == 12
    assert "net" in kept.load().states


@pytest.mark.parametrize(
    "changes",
    [
        {"format": "other"},
        {"step": 4},
        {"step": "3"},
        {"files": {}},
        {"files": 3},
        {"tensors": []},
        {"tensors": {}},
        {"config": {"!pickle": "x"}},
    ],
)
def test_a_manifest_that_is_whole_but_wrong_is_refused(tmp_path: Path, changes: dict) -> None:
    kept = CheckpointStore(tmp_path)
    rewrite(kept.save(snapshot(3)), **changes)
    with pytest.raises(CheckpointError, match="step 3"):
        kept.load()


def test_no_pickle_is_ever_read_or_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("pickle was used")

    for name in ("load", "loads", "dump", "dumps", "Unpickler", "Pickler"):
        monkeypatch.setattr(f"pickle.{name}", refuse)
    monkeypatch.setattr("torch.load", refuse)
    CheckpointStore(tmp_path).save(snapshot(1))
    assert CheckpointStore(tmp_path).load().step == 1


# -- the page --------------------------------------------------------------------------------------


def test_the_reader_of_the_page_reads_what_was_written(tmp_path: Path) -> None:
    [code] = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    weight = torch.arange(6.0).reshape(2, 3)

    class State:
        def state_dict(self) -> dict[str, object]:
            return {"w": weight, "t": weight.t(), "tied": weight, 3: (float("inf"), b"x")}

    path = CheckpointStore(tmp_path).save(Snapshot.take({"part": State()}, step=5))  # type: ignore[dict-item]

    def read() -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-I", "-c", code, str(path)]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    said = json.loads(read().stdout)
    assert (said["step"], said["whole"]) == (5, True)
    assert said["tensors"] == len(json.loads((path / "manifest.json").read_text())["tensors"])
    data = bytearray((path / "tensors.safetensors").read_bytes())
    data[-1] ^= 1
    (path / "tensors.safetensors").write_bytes(data)
    assert read().returncode != 0


def test_every_tag_is_on_the_page() -> None:
    source = (Path(manifest.__file__).parent / "tagged_json.py").read_text()
    for tag in set(re.findall(r'"(!\w+)"', source)):
        assert f"`{tag}`" in PAGE.read_text(), tag


# -- files of others -------------------------------------------------------------------------------


def test_foreign_weights_are_read_without_running_anything(tmp_path: Path) -> None:
    weights = OrderedDict(a=torch.ones(2), n=[1, 2.5, "x", None, True])
    torch.save(weights, tmp_path / "good.pt")
    assert_same(load_foreign(tmp_path / "good.pt"), weights)
    from safetensors.torch import save_file

    save_file({"a": torch.ones(2)}, tmp_path / "good.safetensors")
    assert_same(load_foreign(tmp_path / "good.safetensors"), {"a": torch.ones(2)})


class Trap:
    def __reduce__(self) -> tuple[object, ...]:
        return (os.mkdir, ("trapped",))


def test_foreign_code_is_refused_and_not_tried_a_second_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save({"w": torch.ones(1), "trap": Trap()}, "bad.pt")
    with pytest.raises(FormatError, match="allow_pickle=True"):
        load_foreign("bad.pt")
    assert not Path("trapped").exists()
    load_foreign("bad.pt", allow_pickle=True)
    assert Path("trapped").exists()


def test_a_class_declared_safe_to_torch_is_still_beyond_weights(tmp_path: Path) -> None:
    torch.save({"a": types.SimpleNamespace(x=1)}, tmp_path / "odd.pt")
    with (
        torch.serialization.safe_globals([types.SimpleNamespace]),
        pytest.raises(FormatError, match="more than tensors"),
    ):
        load_foreign(tmp_path / "odd.pt")


@pytest.mark.parametrize("name", ["cut.pt", "cut.safetensors"])
def test_a_foreign_file_that_is_cut_is_a_format_error(tmp_path: Path, name: str) -> None:
    torch.save({"a": torch.ones(100)}, tmp_path / name)
    data = (tmp_path / name).read_bytes()
    for end in (0, 10, len(data) // 2, len(data) - 1):
        (tmp_path / name).write_bytes(data[:end])
        with pytest.raises(FormatError, match=name):
            load_foreign(tmp_path / name)
    with pytest.raises(StorageError, match="No such file"):
        load_foreign(tmp_path / "absent.pt")


# -- fingerprints ----------------------------------------------------------------------------------


class Noisy:
    """A dataset whose transform draws from every generator."""

    def __init__(self, length: int = 50, scale: float = 1.0) -> None:
        self.length, self.scale, self.transform = length, scale, random.random

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        noise = torch.rand(2) + random.random() + np.random.rand()
        return noise * self.scale, index


def prints(**changes: object) -> dict:
    model = changes.pop("model", torch.nn.Linear(2, 3))
    make = changes.pop("make", lambda p: torch.optim.Adam(p, lr=0.1))
    given = {"dataset": Noisy(), "batch_size": 8, "seed": 1, **changes}
    return fingerprints(model=model, optimizer=make(model.parameters()), **given)


def test_the_same_training_has_the_same_fingerprints_and_nothing_is_drawn() -> None:
    before = RandomState.take().state_tree()
    data = Noisy()
    first = dataset_fingerprint(data)
    assert_same(RandomState.take().state_tree(), before)
    torch.rand(3)
    assert dataset_fingerprint(data) == first
    assert differences(prints(), prints()) == {}


@pytest.mark.parametrize(
    ("field", "changes", "says"),
    [
        ("model", {"model": torch.nn.Linear(2, 4)}, r"model.weight was \(3, 2\) float32, is \(4,"),
        ("model", {"model": torch.nn.Linear(2, 3).double()}, r"is \(3, 2\) float64"),
        ("model", {"model": torch.nn.Linear(2, 3, bias=False)}, r"model.bias was .*, is absent"),
        ("optimizer", {"make": lambda p: torch.optim.AdamW(p, lr=0.1)}, r"class was .*Adam, is"),
        ("optimizer", {"make": lambda p: torch.optim.Adam(p, lr=0.2)}, r"lr was 0.1, is 0.2"),
        (
            "optimizer",
            {"make": lambda p: torch.optim.Adam([{"params": [each]} for each in p], lr=0.1)},
            r"groups was \[2\], is \[1, 1\]",
        ),
        ("dataset", {"dataset": Noisy(51)}, r"dataset.length was 50, is 51"),
        ("dataset", {"dataset": Noisy(scale=2.0)}, r"dataset.items was"),
        ("batch_size", {"batch_size": 9}, r"batch_size was 8, is 9"),
        ("seed", {"seed": 2}, r"seed was 1, is 2"),
        ("transform", {"transform": print}, r"transform was .*random.*, is .*print"),
    ],
)
def test_what_changed_is_named_with_how_to_go_on(
    field: str, changes: dict, says: str, tmp_path: Path
) -> None:
    (tmp_path / "run").mkdir()
    CheckpointStore(tmp_path / "run").save(snapshot(1, fingerprints=prints()))
    config = SessionConfig(save_dir=tmp_path, run_name="run", resume="auto")
    with pytest.raises(ConfigError) as refused:
        find_resume_point(config, prints(**changes))
    assert re.search(says, str(refused.value))
    assert f"allow_changed=('{field}',)" in str(refused.value)


def test_fingerprints_survive_a_checkpoint(tmp_path: Path) -> None:
    CheckpointStore(tmp_path).save(snapshot(1, fingerprints=prints()))
    assert differences(CheckpointStore(tmp_path).load().fingerprints, prints()) == {}


def test_a_dataset_may_have_a_fingerprint_of_its_own_and_a_stream_is_not_used_up() -> None:
    class Own(Noisy):
        def fingerprint(self) -> str:
            return "v1"

    assert dataset_fingerprint(Own()) == {"own": "'v1'"}
    assert dataset_fingerprint(iter(())) == {"class": "tuple_iterator"}
    assert dataset_fingerprint([])["length"] == 0
    subset = Subset(Noisy(), [1, 2])  # type: ignore[arg-type]
    assert fingerprints(dataset=subset)["transform"] is not None
    reads: list[int] = []
    dataset_fingerprint(range(10**6), read=reads.append)
    assert (len(reads), reads[0], reads[-1]) == (32, 0, 10**6 - 1)


@dataclass
class Item:
    x: int
    y: str


class Picture:
    mode, size = "L", (2, 1)

    def __init__(self, data: bytes) -> None:
        self.data = data

    def tobytes(self) -> bytes:
        return self.data


def test_values_that_differ_hash_differently() -> None:
    values = [
        1,
        1.0,
        True,
        "1",
        b"1",
        None,
        [1],
        (1,),
        [[1], []],
        [[], [1]],
        ["a", "b"],
        ["ab"],
        {"a": 1},
        {"a": 2},
        torch.ones(2),
        torch.ones(2, 1),
        torch.ones(2).double(),
        np.ones(2),
        np.float32(1),
        Item(1, "a"),
        Item(1, "b"),
        Picture(b"ab"),
        Picture(b"ac"),
        bytearray(b"1"),
    ]
    assert len({hash_value(value) for value in values}) == len(values)
    assert hash_value(object()) == hash_value(object())  # an address is no content

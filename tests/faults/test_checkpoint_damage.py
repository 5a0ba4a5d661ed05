"""A checkpoint that is cut, flipped or incomplete is refused, and the one before it is used."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest
import torch

from midstep.core.errors import FormatError, StorageError
from midstep.session.checkpoint.checkpoint_folders import FILES
from midstep.session.checkpoint.checkpoint_store import (
    CheckpointError,
    CheckpointStore,
    read_checkpoint,
)
from midstep.session.state.snapshot import Snapshot

FLIPS = 200


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with checkpoints of steps 1 and 2."""
    run_dir = tmp_path_factory.mktemp("good")
    model = torch.nn.Sequential(torch.nn.Linear(5, 4), torch.nn.BatchNorm1d(4))
    optimizer = torch.optim.Adam(model.parameters())
    for step in (1, 2):
        model(torch.rand(3, 5)).sum().backward()
        optimizer.step()
        random.random()  # so that state.json differs too
        CheckpointStore(run_dir).save(
            Snapshot.take({"model": model, "optimizer": optimizer}, step=step, config={"a": 1})
        )
    return run_dir


def assert_the_one_before_is_used(run_dir: Path, file: str) -> str:
    """One typed error that names step and file, and the checkpoint of step 1 instead."""
    kept = CheckpointStore(run_dir)
    with pytest.raises(CheckpointError) as caught:
        kept.load()
    assert caught.value.step == 2
    assert caught.value.file.name == file
    assert str(caught.value.file) in str(caught.value)
    assert isinstance(caught.value, FormatError)
    found = kept.newest_valid()
    assert found is not None
    assert (found.snapshot.step, found.path.name) == (1, "1")
    assert found.problems == [str(caught.value)]
    return str(caught.value)


def test_any_of_200_flipped_bits_is_found(good: Path, tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    shutil.copytree(good, run_dir, symlinks=True)
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")  # shown when it fails
    draw = random.Random(seed)
    for turn in range(FLIPS):
        path = run_dir / "checkpoints/2" / FILES[turn % len(FILES)]
        data = bytearray(path.read_bytes())
        place, bit = draw.randrange(len(data)), draw.randrange(8)
        data[place] ^= 1 << bit
        path.write_bytes(data)
        assert_the_one_before_is_used(run_dir, path.name)
        data[place] ^= 1 << bit
        path.write_bytes(data)
    assert CheckpointStore(run_dir).load().step == 2


def test_every_bit_of_the_manifest_counts(good: Path, tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    shutil.copytree(good, run_dir, symlinks=True)
    path = run_dir / "checkpoints/2/manifest.json"
    whole = path.read_bytes()
    for place in [*range(64), *range(len(whole) - 90, len(whole))]:
        for bit in range(8):
            data = bytearray(whole)
            data[place] ^= 1 << bit
            path.write_bytes(data)
            with pytest.raises(CheckpointError, match="step 2"):
                CheckpointStore(run_dir).load()


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("where", ["0", "10", "half", "last byte", "one byte more", "gone"])
def test_a_file_that_is_cut_is_refused(good: Path, tmp_path: Path, file: str, where: str) -> None:
    run_dir = tmp_path / "run"
    shutil.copytree(good, run_dir, symlinks=True)
    path = run_dir / "checkpoints/2" / file
    data = path.read_bytes()
    if where == "gone":
        path.unlink()
    else:
        ends = {"0": 0, "10": 10, "half": len(data) // 2, "last byte": -1, "one byte more": None}
        path.write_bytes(data[: ends[where]] + (b"\0" if where == "one byte more" else b""))
    assert_the_one_before_is_used(run_dir, file)


def test_every_cut_of_the_manifest_is_refused(good: Path, tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    shutil.copytree(good, run_dir, symlinks=True)
    path = run_dir / "checkpoints/2/manifest.json"
    data = path.read_bytes()
    for end in range(0, len(data), 7):
        path.write_bytes(data[:end])
        with pytest.raises(CheckpointError, match="own hash"):
            CheckpointStore(run_dir).load()


def test_files_of_two_checkpoints_do_not_mix(good: Path, tmp_path: Path) -> None:
    for file in FILES:
        run_dir = tmp_path / file
        shutil.copytree(good, run_dir, symlinks=True)
        folder = run_dir / "checkpoints"
        shutil.copy(folder / "1" / file, folder / "2" / file)
        with pytest.raises(CheckpointError, match="step 2"):
            CheckpointStore(run_dir).load()


def test_none_that_is_whole_is_an_error_and_not_a_fresh_start(good: Path, tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    shutil.copytree(good, run_dir, symlinks=True)
    for step in (1, 2):
        (run_dir / f"checkpoints/{step}/state.json").write_bytes(b"")
    with pytest.raises(CheckpointError, match="none of the 2 checkpoints") as caught:
        CheckpointStore(run_dir).newest_valid()
    assert "step 1" in str(caught.value)
    assert "step 2" in str(caught.value)


def test_a_header_that_claims_too_much_takes_no_memory(good: Path, tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    shutil.copytree(good, run_dir, symlinks=True)
    path = run_dir / "checkpoints/2/tensors.safetensors"
    data = path.read_bytes()
    path.write_bytes((1 << 62).to_bytes(8, "little") + data[8:])
    assert "claims" in assert_the_one_before_is_used(run_dir, path.name)


def test_a_disk_that_cannot_be_read_is_not_taken_for_damage(
    good: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_folder: Path, _name: str) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("midstep.session.checkpoint.checkpoint_store.open_plain", refuse)
    with pytest.raises(StorageError, match="cannot read"):
        CheckpointStore(good).newest_valid()


@pytest.mark.parametrize("name", ["last", "best_val", "model"])
def test_a_link_out_of_the_run_is_no_checkpoint(good: Path, tmp_path: Path, name: str) -> None:
    run_dir, other = tmp_path / "theirs", tmp_path / "ours"
    shutil.copytree(good, run_dir, symlinks=True)
    shutil.copytree(good, other, symlinks=True)
    newest = CheckpointStore(run_dir).names()[0]
    read_checkpoint(run_dir / "last")
    for target in (other / "checkpoints" / newest.name, "../ours/last", "..", "checkpoints/.."):
        (run_dir / name).unlink(missing_ok=True)
        (run_dir / name).symlink_to(target)
        with pytest.raises(CheckpointError, match="not a checkpoint of this run"):
            read_checkpoint(run_dir / name)
    (run_dir / name).unlink()
    (run_dir / name).symlink_to(f"checkpoints/{newest.name}")
    assert read_checkpoint(run_dir / name).step == newest.step


@pytest.mark.parametrize("file", ["manifest.json", "state.json", "tensors.safetensors"])
def test_a_link_or_a_pipe_in_a_checkpoint_is_refused(good: Path, tmp_path: Path, file: str) -> None:
    run_dir = tmp_path / "theirs"
    shutil.copytree(good, run_dir, symlinks=True)
    store = CheckpointStore(run_dir)
    path = store.path(store.names()[0])
    shutil.copy(path / file, tmp_path / file)
    (path / file).unlink()
    (path / file).symlink_to(tmp_path / file)
    with pytest.raises(CheckpointError):
        read_checkpoint(path)
    (path / file).unlink()
    os.mkfifo(path / file)
    with pytest.raises(CheckpointError):
        read_checkpoint(path)

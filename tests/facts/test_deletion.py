"""Deleting a run: its own files go, all else stays, and no interruption loses track of it."""

from __future__ import annotations

import multiprocessing
import os
import shutil
from pathlib import Path

import pytest

from midstep.core.errors import RunHeldError, StorageError
from midstep.core.files.storage import replace_json
from midstep.facts import FactsWriter, Lease
from midstep.facts.deletion import delete_run, plan_deletion
from midstep.facts.format.run_files import classify, disk_bytes, list_files
from midstep.facts.index.run_index import RunIndex
from midstep.session.checkpoint.checkpoint_folders import FILES, CheckpointName
from tests.facts.stored_runs import write_run


@pytest.fixture(autouse=True)
def fast_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """None of these tests is about power cuts."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


def full_run(folder: Path) -> str:
    """A run with one of everything that is its own."""
    run_id = write_run(folder)
    for place in (CheckpointName(0, 120), CheckpointName(1, 80, 2)):
        (folder / "checkpoints" / place.name).mkdir(parents=True)
        for name in FILES:
            (folder / "checkpoints" / place.name / name).write_bytes(b"12345")
    (folder / "last").symlink_to("checkpoints/120")
    (folder / "best_val").symlink_to("checkpoints/120")
    (folder / "model").symlink_to("best_val")
    for path in ("figures/losses-on_epoch_end-e003.png", ".hydra/config.yaml", "console.log"):
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_bytes(b"1")
    replace_json(folder / "lineage.json", {"version": 1, "edges": []})
    (folder / "artifacts").mkdir()
    replace_json(folder / "artifacts" / "trajectories.json", {})
    (folder / ".labels.json.0123456789ab.midstep-tmp").write_bytes(b"1")
    return run_id


def test_a_run_of_only_its_own_files_goes_with_its_directory(tmp_path: Path):
    full_run(tmp_path / "a")
    plan, size = plan_deletion(tmp_path / "a"), disk_bytes(str(tmp_path / "a"))
    assert (plan.foreign, plan.bytes) == ([], size)
    found = delete_run(tmp_path / "a")
    assert found.kept == []
    assert found.removed_bytes >= size
    assert list(tmp_path.iterdir()) == []


def test_foreign_files_stay_and_are_named(tmp_path: Path):
    run = tmp_path / "a"
    full_run(run)
    foreign = [
        "notes.txt",
        "facts/mine.csv",
        "checkpoints/120/more.bin",
        "checkpoints/0120/state.json",
        "checkpoints/best/state.json",
        "figures/own.png",
        "artifacts/table.csv",
        "data/deep/down.txt",
        "events.jsonl",
        ".hydra/secrets.yaml",
    ]
    for path in foreign:
        (run / path).parent.mkdir(parents=True, exist_ok=True)
        (run / path).write_text("mine")
    (run / "empty").mkdir()
    assert sorted(plan_deletion(run).foreign) == sorted(foreign)
    found = delete_run(run)
    assert sorted(found.kept) == sorted([*foreign, "empty/"])
    assert sorted(file.path for file in list_files(run)) == sorted(foreign)


def test_links_are_removed_and_never_followed(tmp_path: Path):
    run, outside = tmp_path / "a", tmp_path / "outside"
    full_run(run)
    shutil.copytree(run / "checkpoints", outside / "checkpoints")
    shutil.rmtree(run / "checkpoints")
    (run / "checkpoints").symlink_to(outside / "checkpoints")
    (run / "figures" / "mine").symlink_to(outside)
    (outside / "scalars.csv").write_text("mine")
    (run / "facts" / "scalars.csv").unlink()
    (run / "facts" / "scalars.csv").symlink_to(outside / "scalars.csv")
    before = sorted(outside.rglob("*"))
    found = delete_run(run)
    assert found.kept == ["figures/mine"]
    assert sorted(outside.rglob("*")) == before
    assert not (run / "checkpoints").is_symlink()


def test_a_run_whose_facts_are_a_link_loses_the_link_only(tmp_path: Path):
    write_run(tmp_path / "real")
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "facts").symlink_to(tmp_path / "real" / "facts")
    before = sorted((tmp_path / "real").rglob("*"))
    delete_run(tmp_path / "a")
    assert not (tmp_path / "a").exists()
    assert sorted((tmp_path / "real").rglob("*")) == before


def test_a_folder_that_turns_into_a_link_meanwhile_is_not_followed(tmp_path: Path, monkeypatch):
    run, outside = tmp_path / "a", tmp_path / "outside"
    full_run(run)
    shutil.copytree(run / "checkpoints", outside)
    original = os.unlink

    def swap(path, *, dir_fd=None):
        if not (run / "checkpoints").is_symlink():
            shutil.move(run / "checkpoints", tmp_path / "away")
            (run / "checkpoints").symlink_to(outside)
        original(path, dir_fd=dir_fd)

    monkeypatch.setattr(os, "unlink", swap)
    delete_run(run)
    assert sorted(path.name for path in outside.rglob("*.json"))


# -- who holds it ---------------------------------------------------------------------------------


def test_a_run_that_this_process_writes_is_refused(tmp_path: Path):
    with FactsWriter(tmp_path / "a") as facts:
        facts.event("on_train_end", status="finished")
        with pytest.raises(RunHeldError, match="this process"):
            delete_run(tmp_path / "a")
        facts.log(1, loss=1.0)
    assert (tmp_path / "a" / "facts" / "events.jsonl").exists()


def _hold(folder: str, ready, done) -> None:
    with FactsWriter(folder) as facts:
        facts.event("on_train_end", status="finished")
        ready.set()
        done.wait(60)


def test_a_run_that_another_process_holds_is_refused_though_it_says_it_ended(tmp_path: Path):
    spawn = multiprocessing.get_context("spawn")
    ready, done = spawn.Event(), spawn.Event()
    holder = spawn.Process(target=_hold, args=(str(tmp_path / "a"), ready, done))
    holder.start()
    try:
        assert ready.wait(60)
        with pytest.raises(RunHeldError, match=f"process {holder.pid}"):
            delete_run(tmp_path / "a")
    finally:
        done.set()
        holder.join(60)
    delete_run(tmp_path / "a")
    assert not (tmp_path / "a").exists()


def test_a_run_whose_heartbeat_comes_from_another_host_is_refused(tmp_path: Path, monkeypatch):
    write_run(tmp_path / "a", end=None)
    with Lease.acquire(tmp_path / "a", "0123456789ab"):
        lease = (tmp_path / "a" / "lease.json").read_text()
    monkeypatch.setattr("platform.node", lambda: "elsewhere")
    (tmp_path / "a" / "lease.json").write_text(lease)
    with pytest.raises(RunHeldError, match="running"):
        delete_run(tmp_path / "a")


# -- interruptions --------------------------------------------------------------------------------


class Cut(BaseException):
    """The end of the process, as far as the deletion can tell."""


def test_a_deletion_cut_short_anywhere_leaves_a_run_that_is_listed_and_can_be_deleted(
    tmp_path: Path, monkeypatch
):
    original, names = os.unlink, ("unlink", "rmdir")
    template = tmp_path / "template"
    run_id = full_run(template)
    steps = 0
    while True:
        root = tmp_path / f"cut_{steps}"
        shutil.copytree(template, root / "a", symlinks=True)
        left = [steps]

        def cut(path, *, dir_fd=None, left=left):
            if left[0] == 0:
                raise Cut
            left[0] -= 1
            original(path, dir_fd=dir_fd)

        monkeypatch.setattr(os, names[0], cut)
        try:
            delete_run(root / "a")
        except Cut:
            monkeypatch.setattr(os, names[0], original)
            (row,) = _rows(root)
            if (root / "a" / "facts" / "deleting.json").exists():
                assert (row.state, row.id) == ("damaged", run_id)
            else:  # only the lock file is left
                assert row.state == "lost"
            assert delete_run(root / "a").kept == []
            assert _rows(root) == []
            steps += 1
            continue
        break
    assert steps > 15


def _rows(root: Path) -> list:
    index = RunIndex(root, "memory")
    index.refresh()
    return index.rows().rows


def test_a_disk_that_refuses_is_told_and_the_run_stays_listed(tmp_path: Path, monkeypatch):
    full_run(tmp_path / "a")

    def refuse(path, *, dir_fd=None):
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", refuse)
        with pytest.raises(StorageError, match="Permission denied"):
            delete_run(tmp_path / "a")
    (row,) = _rows(tmp_path)
    assert "delete it again" in row.why
    delete_run(tmp_path / "a")
    assert _rows(tmp_path) == []


# -- whose files ----------------------------------------------------------------------------------


def test_every_name_that_the_checkpoint_store_uses_is_the_runs_own():
    for place in (
        CheckpointName(0, 0),
        CheckpointName(0, 7),
        CheckpointName(3, 120),
        CheckpointName(2, 5, 3),
    ):
        for name in FILES:
            assert classify(f"checkpoints/{place.name}/{name}") == ("checkpoint", True)


def test_all_that_a_session_writes_is_the_runs_own(tmp_path: Path):
    """A run as midstep makes it, checkpoints included, leaves nothing behind."""
    from midstep.session import Run
    from midstep.session.checkpoint.checkpoint_folders import CheckpointFolders

    with Run(name="small", save_dir=tmp_path, on_error="raise") as run:
        run.log(loss=1.0)
        CheckpointFolders(run.dir).add(1, 0, {name: [b"1"] for name in FILES}, best=True)
    assert plan_deletion(run.dir).foreign == []
    delete_run(run.dir)
    assert list(tmp_path.iterdir()) == []

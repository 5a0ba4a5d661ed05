"""A full, broken or read-only disk: the old checkpoint stays, the temporary one goes."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
import torch

from midstep.core.errors import StorageError
from midstep.core.files import atomic_folders
from midstep.session.checkpoint.checkpoint_store import CheckpointStore
from midstep.session.state.snapshot import Snapshot
from tests.checkers.kill import assert_nothing_left, run_forked
from tests.faults.test_facts_disk import NOBODY, on_small_disk

FULL_DISK = """
import errno, json, os, sys
from pathlib import Path
import torch
from midstep.core.errors import StorageError
from midstep.session.checkpoint.checkpoint_store import CheckpointStore
from midstep.session.state.snapshot import Snapshot

disk = Path(sys.argv[1])
model = torch.nn.Linear(200, 500)  # 400 kB
kept = CheckpointStore(disk)
kept.save(Snapshot.take({"model": model}, step=1), best=True)
ballast = disk / "ballast"
ballast.write_bytes(bytes(1300 * 1024))
free = os.statvfs(disk).f_bavail
try:
    kept.save(Snapshot.take({"model": model}, step=2), best=True)
    refused = None
except StorageError as error:
    refused = [error.errno == errno.ENOSPC, str(error)]
after = os.statvfs(disk).f_bavail
names = sorted(path.name for path in (disk / "checkpoints").iterdir())
old = kept.load().step
ballast.unlink()
kept.save(Snapshot.take({"model": model}, step=2), best=True)
print(json.dumps({"refused": refused, "names": names, "old": old, "new": kept.load().step,
                  "given_back": after >= free, "best": os.readlink(disk / "best_val"),
                  "problems": kept.newest_valid().problems}))
"""


def snapshot(step: int) -> Snapshot:
    return Snapshot.take({"model": torch.nn.Linear(2, 2)}, step=step)


def test_a_full_disk_keeps_the_old_checkpoint_and_no_temporary_one(tmp_path: Path) -> None:
    said = on_small_disk(tmp_path / "disk", FULL_DISK)
    is_full, reason = said["refused"]
    assert is_full
    assert "free some space" in reason
    assert (said["names"], said["old"], said["given_back"]) == (["1"], 1, True)
    assert (said["new"], said["best"], said["problems"]) == (2, "checkpoints/2", [])


@pytest.mark.parametrize("call", ["write", "fsync"])
@pytest.mark.parametrize("point", range(1, 6))
def test_an_io_error_anywhere_keeps_the_old_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, point: int
) -> None:
    kept = CheckpointStore(tmp_path)
    kept.save(snapshot(1))
    real, left = getattr(os, call), [point]

    def failing(*arguments: object) -> object:
        left[0] -= 1
        if left[0] == 0:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return real(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(atomic_folders.os, call, failing)
        with pytest.raises(StorageError, match="disk reports an error") as caught:
            kept.save(snapshot(2))
    assert caught.value.errno == errno.EIO
    assert_nothing_left(tmp_path)
    found = kept.newest_valid()
    assert found is not None
    assert found.problems == []
    # Once it is renamed it is whole; only that it survives a power cut could not be promised.
    assert found.snapshot.step == (2 if call == "fsync" and point == 5 else 1)
    kept.save(snapshot(2))
    assert kept.load().step == 2


def test_short_writes_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write
    with monkeypatch.context() as patch:
        patch.setattr(atomic_folders.os, "write", lambda target, data: real(target, data[:100]))
        CheckpointStore(tmp_path).save(snapshot(1))
    assert CheckpointStore(tmp_path).load().step == 1


def test_a_read_only_folder_is_refused_with_the_remedy(tmp_path: Path) -> None:
    kept = CheckpointStore(tmp_path)
    kept.save(snapshot(1))
    (tmp_path / "checkpoints").chmod(0o555)
    made = snapshot(2)

    def work(acknowledge) -> None:
        with pytest.raises(StorageError) as caught:
            kept.save(made)
        acknowledge(str(caught.value))

    for folder in (tmp_path, *tmp_path.parents):
        if not folder.stat().st_mode & 0o001:  # closed to others on the way, by pytest
            folder.chmod(folder.stat().st_mode | 0o555)
    [reason] = run_forked(work, user=NOBODY)
    assert "change its permissions" in reason
    (tmp_path / "checkpoints").chmod(0o755)
    assert kept.load().step == 1

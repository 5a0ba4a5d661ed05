"""Large arrays in blocks: written once, removed when unnamed, verified, shared in the ring."""

from __future__ import annotations

import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from midstep.core.errors import FormatError, StorageError
from midstep.facts.deletion import delete_run, plan_deletion
from midstep.session.checkpoint import checkpoint_folders
from midstep.session.checkpoint.checkpoint_store import CheckpointError, CheckpointStore
from midstep.session.rewind.snapshot_ring import OVERHEAD_BYTES, SnapshotRing
from midstep.session.state.large_arrays import BlockSizes, LargeCopies
from midstep.session.state.snapshot import Snapshot, snapshot_bytes
from tests.checkers.kill import ForkedChild, assert_nothing_left
from tests.session.same import assert_same
from tests.session.test_snapshot_checkpoints import PAGE

SIZES = BlockSizes(large_bytes=4096, block_bytes=1024)


class Buffers:
    """A replay buffer: observations, actions, and a position."""

    def __init__(self, items: int = 2048) -> None:
        draw = np.random.default_rng(0)
        self.state: dict[str, Any] = {
            "obs": torch.from_numpy(draw.standard_normal((items, 2)).astype("f4")),
            "action": draw.integers(0, 1 << 30, items).astype(">i4"),
            "at": 0,
        }

    def write(self, at: int) -> None:
        self.state["obs"][at] += 1.0
        self.state["action"][at] += 1
        self.state["at"] = at

    def state_dict(self) -> dict[str, Any]:
        return dict(self.state)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.state = dict(state)


class Alone:
    """An extra state with one part."""

    def __init__(self, part: Any) -> None:
        self.part = part

    def state_dict(self) -> dict[str, Any]:
        return {"buffer": self.part.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.part.load_state_dict(state["buffer"])


def parts(buffers: Buffers) -> dict[str, Any]:
    return {"model": torch.nn.Linear(40, 60), "also": Alone(buffers)}


def store(run_dir: Path, **options: Any) -> CheckpointStore:
    return CheckpointStore(run_dir, sizes=SIZES, **options)


def blocks(run_dir: Path) -> dict[str, int]:
    """The time of each block's file, in nanoseconds."""
    folder = run_dir / "checkpoints/blocks"
    return {each.name: each.stat().st_mtime_ns for each in folder.iterdir()}


def save_steps(run_dir: Path, steps: int = 3, **options: Any) -> list[Snapshot]:
    """Checkpoints of a buffer that is overwritten in one place before each."""
    buffers, kept = Buffers(), store(run_dir, **options)
    snapshots = []
    for step in range(1, steps + 1):
        buffers.write(200 * step)
        snapshots.append(Snapshot.take(parts(buffers), step=step))
        kept.save(snapshots[-1])
    return snapshots


def test_arrays_come_back_bit_for_bit_and_weights_stay_in_one_file(tmp_path: Path) -> None:
    for snapshot in save_steps(tmp_path):
        loaded = store(tmp_path).load(snapshot.step)
        assert_same(loaded.states, snapshot.states)
        assert loaded.states["also"]["buffer"]["action"].dtype == np.dtype(">i4")
    names = [path.name for path in (tmp_path / "checkpoints/3").iterdir()]
    assert sorted(names) == ["manifest.json", "state.json", "tensors.safetensors"]
    # 8 KiB and 16 KiB in blocks of 1 KiB; the model's 9,600 bytes are in no block.
    assert (tmp_path / "checkpoints/3/tensors.safetensors").stat().st_size > 9_600
    assert len(blocks(tmp_path)) == 24 + 2 * 2


def test_the_reader_of_the_page_checks_blocks_too(tmp_path: Path) -> None:
    save_steps(tmp_path, 1)
    [code] = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    command = [sys.executable, "-I", "-c", code, str(tmp_path / "checkpoints/1")]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0
    spoil(next((tmp_path / "checkpoints/blocks").iterdir()), "flip")
    assert b"AssertionError" in subprocess.run(command, capture_output=True, check=False).stderr


def test_an_unchanged_block_is_written_once_and_an_unnamed_one_removed(tmp_path: Path) -> None:
    buffers, kept = Buffers(), store(tmp_path, keep=1)
    kept.save(Snapshot.take(parts(buffers), step=1))
    before = blocks(tmp_path)
    buffers.write(5)
    kept.save(Snapshot.take(parts(buffers), step=2))
    after = blocks(tmp_path)
    assert len(before) == len(after) == 24
    assert len(before.keys() - after.keys()) == 2
    assert all(after[name] == before[name] for name in before.keys() & after.keys())
    # In another process too, where each is compared with its name first.
    store(tmp_path, keep=1).save(Snapshot.take(parts(buffers), step=3))
    assert blocks(tmp_path) == after
    kept.save(Snapshot.take({"model": torch.nn.Linear(2, 2)}, step=4))
    assert not (tmp_path / "checkpoints/blocks").exists()
    assert_nothing_left(tmp_path)


def test_blocks_of_a_checkpoint_that_the_user_renamed_stay(tmp_path: Path) -> None:
    first = save_steps(tmp_path, 1)[0]
    (tmp_path / "checkpoints/1").rename(tmp_path / "checkpoints/best of may")
    store(tmp_path).save(Snapshot.take({"model": torch.nn.Linear(2, 2)}, step=9))
    (tmp_path / "checkpoints/best of may").rename(tmp_path / "checkpoints/1")
    assert_same(store(tmp_path).load(1).states, first.states)


def only_of(run_dir: Path, step: int) -> str:
    """A block that only this step's manifest names."""
    kept = CheckpointStore(run_dir)
    naming = {folder.name: names for folder, names in kept.blocks._manifests()}
    others = set().union(*(names for name, names in naming.items() if name != str(step)))
    return min(naming[str(step)] - others)


@pytest.mark.parametrize("damage", ["flip", "cut", "longer", "gone", "link", "empty folder"])
def test_a_damaged_block_refuses_each_checkpoint_that_names_it(tmp_path: Path, damage: str) -> None:
    save_steps(tmp_path)
    shared = next(name for name in blocks(tmp_path) if name not in own_blocks(tmp_path))
    for name, refused in ((only_of(tmp_path, 3), {3}), (shared, {1, 2, 3})):
        run_dir = tmp_path.with_name(f"{tmp_path.name} {len(refused)}")
        shutil.copytree(tmp_path, run_dir, symlinks=True)
        spoil(run_dir / "checkpoints/blocks" / name, damage)
        kept = store(run_dir)
        for step in (1, 2, 3):
            if step not in refused:
                assert kept.load(step).step == step
                continue
            with pytest.raises(CheckpointError, match=f"step {step}") as caught:
                kept.load(step)
            words = "newest checkpoint that does not is 2" if len(refused) == 1 else "every check"
            assert words in str(caught.value)
            assert name in str(caught.value)
        if len(refused) == 1:
            newest = kept.newest_valid()
            assert newest is not None
            assert newest.snapshot.step == 2
        # The steps after it may make the very same block again: it is written anew.
        save_steps(run_dir)
        assert [store(run_dir).load(step).step for step in (1, 2, 3)] == [1, 2, 3]


def own_blocks(run_dir: Path) -> set[str]:
    """Blocks that not every manifest names."""
    named = [names for _, names in CheckpointStore(run_dir).blocks._manifests()]
    return set().union(*named) - set.intersection(*named)


def spoil(path: Path, damage: str) -> None:
    data = path.read_bytes()
    path.unlink()
    if damage == "flip":
        path.write_bytes(bytes([data[0] ^ 1]) + data[1:])
    elif damage in ("cut", "longer"):
        path.write_bytes(data[:-1] if damage == "cut" else data + b"\0")
    elif damage == "link":
        path.with_name("aside").write_bytes(data)
        path.symlink_to("aside")
    elif damage == "empty folder":
        path.write_bytes(b"")


@pytest.mark.parametrize("field", ["bytes", "block_bytes", "shape", "blocks", "many blocks"])
def test_a_table_of_blocks_that_cannot_be_takes_no_memory(tmp_path: Path, field: str) -> None:
    from midstep.core import strict_json
    from midstep.session.checkpoint.hashes import seal, unseal

    save_steps(tmp_path, 1)
    path = tmp_path / "checkpoints/1/manifest.json"
    document = strict_json.loads(unseal(path.read_bytes()))
    array = next(iter(document["blocks"].values()))
    huge = {"bytes": 1 << 50, "block_bytes": 1 << 50, "shape": [1 << 48], "blocks": ["../../etc"]}
    if field == "many blocks":
        array |= {"bytes": 4 << 20, "shape": [1 << 20], "dtype": "F32", "block_bytes": 1}
    else:
        array[field] = huge[field]
    path.write_bytes(seal(strict_json.dumps(document).encode()))
    tracemalloc.start()
    with pytest.raises(CheckpointError):
        store(tmp_path).load(1)
    assert tracemalloc.get_traced_memory()[1] < 8 << 20
    tracemalloc.stop()


def test_a_full_disk_leaves_no_block_of_the_failed_save(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_steps(tmp_path, 1)
    before, left, real = blocks(tmp_path), [3], os.write

    def full(*arguments: Any) -> int:
        left[0] -= 1
        if left[0] == 0:
            raise OSError(28, "No space left on device")
        return real(*arguments)

    buffers = Buffers()
    for at in range(0, 2048, 200):
        buffers.write(at)
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(StorageError, match="free some space"):
            store(tmp_path).save(Snapshot.take(parts(buffers), step=2))
    assert blocks(tmp_path) == before
    assert_nothing_left(tmp_path)


@pytest.mark.parametrize("last_call", ["add_folder", "remove_unnamed"])
def test_a_kill_between_blocks_and_manifest_leaves_the_old_checkpoint(
    tmp_path: Path, last_call: str
) -> None:
    """Or the new one, when it comes before the blocks that nobody names any more are removed."""
    snapshots = save_steps(tmp_path, 1)
    buffers = Buffers()
    buffers.write(900)
    snapshots.append(Snapshot.take(parts(buffers), step=2))

    def work(_acknowledge: Any) -> None:
        def die(*_arguments: Any) -> None:
            os.kill(os.getpid(), signal.SIGKILL)

        kept = store(tmp_path, keep=1)
        owner = checkpoint_folders if last_call == "add_folder" else kept.blocks
        setattr(owner, last_call, die)
        kept.save(snapshots[1])

    child = ForkedChild(work)
    child.wait()
    assert child.status == -signal.SIGKILL
    step = 1 if last_call == "add_folder" else 2
    kept = store(tmp_path, keep=1)
    assert len(blocks(tmp_path)) > 24
    kept.remove_leftovers()
    assert blocks(tmp_path).keys() == kept.blocks.named()
    assert len(blocks(tmp_path)) == 24
    assert_same(kept.load().states, snapshots[step - 1].states)
    assert_nothing_left(tmp_path)


def test_deleting_a_run_takes_its_blocks_and_leaves_a_foreign_file_there(tmp_path: Path) -> None:
    from midstep.facts import FactsWriter

    run_dir = tmp_path / "run"
    with FactsWriter(run_dir) as facts:
        facts.log(1, loss=0.5)
    save_steps(run_dir, 2)
    (run_dir / "checkpoints/blocks/mine").write_text("mine")
    (run_dir / "checkpoints/blocks/.ab.0123456789ab.midstep-tmp").write_text("left")
    assert plan_deletion(run_dir).foreign == ["checkpoints/blocks/mine"]
    assert delete_run(run_dir).kept == ["checkpoints/blocks/mine"]
    assert [path.name for path in run_dir.rglob("*") if path.is_file()] == ["mine"]


# -- in the ring ----------------------------------------------------------------------------------


def test_only_overwritten_blocks_are_held_twice_and_each_step_comes_back(tmp_path: Path) -> None:
    ring, buffers, wanted = SnapshotRing(1 << 20, steps=64, sizes=SIZES), Buffers(), {}
    model = torch.nn.Linear(2, 2)
    for step in range(12):
        buffers.write(17 * step)
        named = {"model": model, "also": Alone(buffers)}
        wanted[step] = Snapshot.take(named, step=step)
        large = ring.copies_before(step)
        size = Snapshot.take(named, step=step).bytes - large.shared_bytes(live(named))
        assert ring.keep(lambda: Snapshot.take(named, step=step, large=large), step, lambda: size)  # noqa: B023
    whole, small = wanted[0].bytes, 24  # a Linear(2, 2)
    most = whole + 11 * (2 * SIZES.block_bytes + small)
    assert ring.bytes - 12 * OVERHEAD_BYTES <= most
    for step in range(11, -1, -1):
        held, taken = ring.nearest(step), Buffers()
        assert held is not None
        held.restore({"model": model, "also": Alone(taken)})
        assert_same(taken.state, wanted[step].states["also"]["buffer"])
        assert_same(held.state_tree()["also"], wanted[step].states["also"])
    taken.state["obs"].fill_(0)  # what was restored is its own
    assert_same(ring.nearest(0).state_tree()["also"], wanted[0].states["also"])


def live(named: dict[str, Any]) -> dict[str, Any]:
    return {name: part.state_dict() for name, part in named.items()}


def test_a_snapshot_beside_another_never_takes_the_ring_above_its_bytes() -> None:
    """The buffer takes most of the budget, and half of it is overwritten at a time."""
    buffers = Buffers()
    whole = Snapshot.take({"also": Alone(buffers)}, step=0).bytes
    budget = whole * 5 // 4 + 2 * OVERHEAD_BYTES
    ring = SnapshotRing(budget, steps=64, sizes=SIZES)
    for step in range(6):
        buffers.state["obs"][: 1024 if step % 2 else 20] += 1
        named = {"also": Alone(buffers)}
        large = ring.copies_before(step)
        size = whole - large.shared_bytes(live(named))
        assert ring.keep(lambda: Snapshot.take(named, step=step, large=large), step, lambda: size)  # noqa: B023
        assert ring.bytes <= budget
        assert ring.snapshot_steps[-1] == step


def test_arrays_that_share_memory_or_have_another_form_are_copied_whole() -> None:
    base = torch.arange(4096, dtype=torch.int64)
    state = {"a": base, "b": base.view(64, 64), "t": torch.rand(64, 64).t(), "s": np.arange(4096)}
    taken = LargeCopies(sizes=SIZES).take({"also": state})
    assert list(taken[1]) == [("also", "s")]
    kept = Snapshot.take({"also": Fixed(state)}, step=0, large=LargeCopies(sizes=SIZES))
    back = kept.state_tree()["also"]
    assert back["a"].data_ptr() == back["b"].data_ptr()
    assert_same(back, state)
    assert snapshot_bytes(kept) == 2 * 4096 * 8 + 4096 * 4


class Fixed:
    def __init__(self, state: dict[str, Any]) -> None:
        self.state_dict = lambda: state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        raise FormatError(str(state))


@pytest.mark.soak
def test_saving_a_large_array_takes_no_second_copy_of_it(tmp_path: Path) -> None:
    """256 MiB, with the real sizes: the snapshot is one copy, and writing it takes little more."""
    buffer = np.random.default_rng(0).integers(0, 255, 256 << 20, dtype="u1")
    state = {"array": buffer, "tensor": torch.from_numpy(buffer)}
    for name, value in state.items():
        snapshot = Snapshot.take({"also": Fixed({"buffer": value})}, step=1)
        run_dir = tmp_path / name
        run_dir.mkdir()

        def work(acknowledge: Any, run_dir: Path = run_dir, snapshot: Snapshot = snapshot) -> None:
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            CheckpointStore(run_dir).save(snapshot)
            acknowledge(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)

        [grown_kib] = ForkedChild(work).wait()  # a new process begins with a peak of its own
        assert grown_kib < 64 << 10
        loaded = CheckpointStore(run_dir).load(1).states["also"]["buffer"]
        assert np.array_equal(np.asarray(loaded), buffer)
        assert len(blocks(run_dir)) == 64

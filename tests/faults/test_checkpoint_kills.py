"""`kill -9` at every call that a checkpoint makes: the old one or the new one, never a mix."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from midstep.session.checkpoint.checkpoint_folders import FILES, CheckpointFolders
from midstep.session.checkpoint.checkpoint_store import CheckpointStore
from midstep.session.state.large_arrays import BlockSizes
from midstep.session.state.snapshot import Snapshot
from tests.checkers.checkpoints import assert_folders_whole, assert_newest_loads
from tests.checkers.kill import ForkedChild, assert_nothing_left
from tests.faults.checkpoint_life import SAVES, content
from tests.faults.tracing import trace

POINTS = {
    "mkdir": 5,
    "openat": 15,
    "write": 18,
    "fsync": 20,
    "close": 15,
    "rename": 9,
    "symlink": 5,
    "unlink": 3,
    "rmdir": 1,
}
"""Calls on checkpoints, each with the fewest points at which `checkpoint_life` makes it."""
NAMES = ["3", "3.2", "1.t1"]
MOST_POINTS = 60


def watched(run_dir: Path) -> list[Path]:
    """Every path that `checkpoint_life` touches; strace goes by them."""
    folder = run_dir / "checkpoints"
    places = [folder / name for name in NAMES]
    temporary = [folder / f".{name}.fixed.midstep-tmp" for name in NAMES]
    files = [place / name for place in temporary for name in FILES]
    links = [run_dir / name for name in ("last", "best_val", "model")]
    aside = [run_dir / f".{link.name}.fixed.midstep-tmp" for link in links]
    return [run_dir, folder, *places, *temporary, *files, *links, *aside]


def check_contents(run_dir: Path, told: list[dict]) -> None:
    """Each folder is exactly one of the saves, and none that was told is missing."""
    folders = CheckpointFolders(run_dir)
    saves = {name: index for index, name in enumerate(NAMES)}
    names = assert_folders_whole(run_dir)
    for name in names:
        for file in FILES:
            wanted = b"".join(content(file, saves[name]))
            assert (folders.folder / name / file).read_bytes() == wanted
    if told:
        newest = max(fact["save"] for fact in told)
        assert saves[names[0]] >= newest, f"{told[-1]} is not in {names}"


@pytest.mark.parametrize("call", POINTS)
def test_a_kill_at_every_call_leaves_old_or_new(tmp_path: Path, strace: str, call: str) -> None:
    script = str(Path(__file__).with_name("checkpoint_life.py"))
    log = tmp_path / "log"
    for point in range(1, MOST_POINTS):
        run_dir = tmp_path / f"{call}{point}"
        done = trace(
            strace,
            [script, str(run_dir)],
            paths=watched(run_dir),
            inject=f"{call}:signal=KILL:when={point}",
            log=log,
        )
        check_contents(run_dir, done.told)
        if not done.was_killed:
            assert len(done.told) == len(SAVES), done.errors
            assert point > POINTS[call], f"the trace saw only {point - 1} points"
            assert_nothing_left(run_dir)
            return
        CheckpointFolders(run_dir).remove_leftovers()
        assert_nothing_left(run_dir)
        check_contents(run_dir, done.told)
    pytest.fail(f"{call} was killed {MOST_POINTS} times and the child never survived")


# -- the same with real snapshots, in children forked from this warm process ----------------------

CALLS = ("mkdir", "open", "write", "fsync", "close", "rename", "replace", "symlink", "unlink")


class Executioner:
    """Kills this process before the n-th of the calls that can change the disk."""

    def __init__(self, point: int) -> None:
        self.left = point

    def wrap(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def killing(*arguments: Any, **options: Any) -> Any:
            self.left -= 1
            if self.left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*arguments, **options)

        return killing


class Buffer:
    """A part that is stored in three blocks, one of which is overwritten before each snapshot."""

    def __init__(self) -> None:
        self.values = torch.arange(300.0)

    def state_dict(self) -> dict[str, Any]:
        self.values[150] += 1
        return {"values": self.values}


SIZES = BlockSizes(large_bytes=1000, block_bytes=400)


@pytest.mark.parametrize(
    "with_blocks", [False, pytest.param(True, marks=pytest.mark.soak)], ids=["plain", "blocks"]
)
def test_a_kill_at_every_call_of_a_save_leaves_a_checkpoint_that_loads(
    tmp_path: Path, with_blocks: bool, record_property: Callable[[str, object], None]
) -> None:
    parts: dict[str, Any] = {"model": torch.nn.Linear(6, 5)}
    if with_blocks:
        parts["also"] = Buffer()
    steps = (1, 2) if with_blocks else (1, 1, 2)
    snapshots = [Snapshot.take(parts, step=step) for step in steps]
    for point in range(1, 400):
        run_dir = tmp_path / str(point)
        run_dir.mkdir()
        first = CheckpointStore(run_dir, keep=1, sizes=SIZES).save(snapshots[0]).name

        def work(
            acknowledge: Callable[[Any], None], point: int = point, run_dir: Path = run_dir
        ) -> None:
            executioner = Executioner(point)
            for name in (*CALLS, "rmdir"):
                setattr(os, name, executioner.wrap(getattr(os, name)))
            kept = CheckpointStore(run_dir, keep=1, sizes=SIZES)
            for snapshot in snapshots[1:]:
                name = kept.save(snapshot, best=True).name
                executioner.left += 1  # telling is a write of its own
                acknowledge(name)

        child = ForkedChild(work)
        told = [first, *child.wait()]
        assert child.status in (0, -signal.SIGKILL), told
        assert assert_newest_loads(run_dir, told) >= 1
        kept = CheckpointStore(run_dir, keep=1, sizes=SIZES)
        kept.remove_leftovers()
        assert_nothing_left(run_dir)
        assert {path.name for path in run_dir.glob("checkpoints/blocks/*")} == kept.blocks.named()
        if child.status == 0:
            assert point > 40
            assert kept.steps == [2]
            record_property("figure", f"{point - 1} kills in saves, each leaves one that loads")
            return
        kept.save(snapshots[-1])  # the next start goes on
        assert assert_newest_loads(run_dir, told) == 2
        assert_nothing_left(run_dir)
    pytest.fail("the child never survived")

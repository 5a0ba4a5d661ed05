"""One snapshot is written, one may wait: which gives way, and what a refusal comes to."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from midstep.core.errors import StorageError
from midstep.session.checkpoint.checkpoint_writer import CheckpointWriter
from midstep.session.state.snapshot import Snapshot

PATIENCE_S = 30.0


class Disk:
    """Stands for the checkpoints of a run; writes when it is let, and keeps what it is given."""

    def __init__(self) -> None:
        self.written: list[int] = []
        self.begun = threading.Semaphore(0)
        self.let = threading.Semaphore(0)
        self.full = False

    def save(self, snapshot: Snapshot, *, best: bool) -> Path:
        self.begun.release()
        assert self.let.acquire(timeout=PATIENCE_S)
        if self.full:
            raise StorageError("no space left on device")
        self.written.append(snapshot.step)
        return Path(str(snapshot.step))

    def go_on(self, times: int = 10) -> None:
        for _ in range(times):
            self.let.release()

    def wait_until_it_writes(self) -> None:
        assert self.begun.acquire(timeout=PATIENCE_S)


class Office:
    """A keeper over such a disk, with what it told and why it held the loop."""

    def __init__(self) -> None:
        self.disk, self.told, self.held = Disk(), [], []  # type: ignore[var-annotated]
        self.writer = CheckpointWriter(
            self.disk,  # type: ignore[arg-type]
            tell=lambda **fact: self.told.append(fact),
            hold=lambda reason, until: self.held.append((reason, until)),
        )


def snapshot(step: int) -> Snapshot:
    return Snapshot.take({}, step=step)


@pytest.fixture
def office() -> Any:
    made = Office()
    yield made
    made.disk.full = False
    made.disk.go_on()
    made.writer.wait()


def test_a_newer_snapshot_takes_the_place_of_one_that_waits_and_the_fact_says_so(office):
    for step in (1, 2, 3):
        office.writer.write_soon(snapshot(step), "every")
        if step == 1:
            office.disk.wait_until_it_writes()
    office.disk.go_on()
    office.writer.wait()
    assert office.disk.written == [1, 3]
    assert [(fact["step"], fact["given_way"]) for fact in office.told] == [(1, 1), (3, 1)]


def test_the_best_gives_way_to_none(office):
    office.writer.write_soon(snapshot(1), "every")
    office.disk.wait_until_it_writes()
    office.writer.write_soon(snapshot(2), "epoch", best=True)
    newer = threading.Thread(target=office.writer.write_soon, args=(snapshot(3), "every"))
    newer.start()
    office.disk.go_on()
    newer.join(PATIENCE_S)
    office.writer.wait()
    assert office.disk.written == [1, 2, 3]
    assert office.told[-1]["given_way"] == 0


def test_save_returns_when_it_is_on_the_disk(office):
    office.disk.go_on()
    assert office.writer.write_now(snapshot(4), "asked") == Path("4")
    assert office.disk.written == [4]
    assert office.writer.last == Path("4")
    office.writer.wait_or_raise()


def test_a_refusal_is_raised_holds_the_loop_and_is_tried_again(office):
    office.disk.full = True
    office.disk.go_on()
    with pytest.raises(StorageError, match="step 4 failed: no space left"):
        office.writer.write_now(snapshot(4), "asked")
    (reason, until) = office.held[-1]
    assert "the checkpoint of step 4 cannot be written: no space left" in reason
    assert not until()
    with pytest.raises(StorageError, match="step 4 failed"):
        office.writer.wait_or_raise()
    office.disk.full = False
    assert until()
    office.writer.wait_or_raise()
    assert office.disk.written == [4]

"""`CheckpointWriter`: one snapshot is written, one may wait; what a full disk does."""

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
    """A fake `CheckpointStore` that writes when the test allows it."""

    def __init__(self) -> None:
        self.written: list[int] = []
        self.begun = threading.Semaphore(0)
        self.allowed = threading.Semaphore(0)
        self.full = False

    def save(self, snapshot: Snapshot, *, best: bool) -> Path:
        self.begun.release()
        assert self.allowed.acquire(timeout=PATIENCE_S)
        if self.full:
            raise StorageError("no space left on device")
        self.written.append(snapshot.step)
        return Path(str(snapshot.step))

    def allow(self, times: int = 10) -> None:
        for _ in range(times):
            self.allowed.release()

    def wait_until_writing(self) -> None:
        assert self.begun.acquire(timeout=PATIENCE_S)


class WriterOnFakeDisk:
    """A writer on a fake disk, with the facts it recorded and why it parked the loop."""

    def __init__(self) -> None:
        self.disk, self.facts, self.parked = Disk(), [], []  # type: ignore[var-annotated]
        self.writer = CheckpointWriter(
            self.disk,  # type: ignore[arg-type]
            record=lambda **fact: self.facts.append(fact),
            park=lambda reason, until: self.parked.append((reason, until)),
        )


def snapshot(step: int) -> Snapshot:
    return Snapshot.take({}, step=step)


@pytest.fixture
def saving() -> Any:
    saving = WriterOnFakeDisk()
    yield saving
    saving.disk.full = False
    saving.disk.allow()
    saving.writer.wait()


def test_a_newer_snapshot_replaces_a_waiting_one_and_the_fact_counts_it(saving):
    for step in (1, 2, 3):
        saving.writer.write_soon(snapshot(step), "every")
        if step == 1:
            saving.disk.wait_until_writing()
    saving.disk.allow()
    saving.writer.wait()
    assert saving.disk.written == [1, 3]
    assert [(fact["step"], fact["given_way"]) for fact in saving.facts] == [(1, 1), (3, 1)]


def test_the_best_is_never_replaced(saving):
    saving.writer.write_soon(snapshot(1), "every")
    saving.disk.wait_until_writing()
    saving.writer.write_soon(snapshot(2), "epoch", best=True)
    newer = threading.Thread(target=saving.writer.write_soon, args=(snapshot(3), "every"))
    newer.start()
    saving.disk.allow()
    newer.join(PATIENCE_S)
    saving.writer.wait()
    assert saving.disk.written == [1, 2, 3]
    assert saving.facts[-1]["given_way"] == 0


def test_write_now_returns_when_it_is_on_disk(saving):
    saving.disk.allow()
    assert saving.writer.write_now(snapshot(4), "asked") == Path("4")
    assert saving.disk.written == [4]
    assert saving.writer.last == Path("4")
    saving.writer.wait_or_raise()


def test_a_refusal_is_raised_parks_the_loop_and_is_retried(saving):
    saving.disk.full = True
    saving.disk.allow()
    with pytest.raises(StorageError, match="step 4 failed: no space left"):
        saving.writer.write_now(snapshot(4), "asked")
    (reason, until) = saving.parked[-1]
    assert "the checkpoint of step 4 cannot be written: no space left" in reason
    assert not until()
    with pytest.raises(StorageError, match="step 4 failed"):
        saving.writer.wait_or_raise()
    saving.disk.full = False
    assert until()
    saving.writer.wait_or_raise()
    assert saving.disk.written == [4]

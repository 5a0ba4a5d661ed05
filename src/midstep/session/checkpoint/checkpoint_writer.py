"""Checkpoints while a training runs: cloned by the training thread, written by another.

A snapshot belongs to nobody else, so the loop goes on while it is written. One may be waiting while
another is being written; a newer one takes its place, unless somebody waits for it or it is the
best. A disk that refuses parks the loop until it takes the snapshot.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from midstep.core.errors import MidstepError, StorageError
from midstep.session.checkpoint.checkpoint_store import CheckpointStore
from midstep.session.state.snapshot import Snapshot

__all__ = ["CheckpointWriter"]

log = logging.getLogger("midstep.session")


@dataclass
class _Job:
    snapshot: Snapshot
    reason: str
    best: bool
    needed: bool
    """Whether it must not give way to a newer one."""
    done: threading.Event = field(default_factory=threading.Event)
    path: Path | None = None
    error: BaseException | None = None


class CheckpointWriter:
    """Writes the checkpoints of one run, in a thread that lives while there is something to write.

    Args:
        checkpoints: where they go.
        tell: told of each that is written: step, path, reason, seconds.
        hold: parks the loop for a reason, until its second argument gives True.
    """

    def __init__(
        self,
        checkpoints: CheckpointStore,
        *,
        tell: Callable[..., object],
        hold: Callable[[str, Callable[[], bool]], object],
    ) -> None:
        self.checkpoints = checkpoints
        self.replaced = 0
        """Snapshots that were never written, as a newer one came before the disk was ready."""
        self.last: Path | None = None
        """The last checkpoint that is on the disk."""
        self._tell, self._hold = tell, hold
        self._changed = threading.Condition()
        self._disk = threading.Lock()  # a retry comes from the training thread
        self._waiting: _Job | None = None
        self._failed: _Job | None = None
        self._thread: threading.Thread | None = None

    def write_soon(self, snapshot: Snapshot, reason: str, *, best: bool = False) -> None:
        """Have it written soon; returns at once, but for a best one that meets a busy disk."""
        self._put(_Job(snapshot, reason, best, needed=best))

    def write_now(self, snapshot: Snapshot, reason: str, *, timeout_s: float | None = None) -> Path:
        """Have it written now; when this returns, it is on the disk.

        Raises:
            StorageError: if the disk refuses, or is not done in time.
        """
        job = _Job(snapshot, reason, best=False, needed=True)
        self._put(job)
        if not job.done.wait(timeout_s):
            raise StorageError(f"the checkpoint of step {snapshot.step} took over {timeout_s} s")
        if job.error is not None or job.path is None:
            raise StorageError(f"the checkpoint of step {snapshot.step} failed: {job.error}")
        return job.path

    def wait(self) -> None:
        """Until nothing waits and nothing is being written."""
        with self._changed:
            thread = self._thread
        if thread is not None:
            thread.join()

    def wait_or_raise(self) -> None:
        """The same; refused if the last one is not on the disk.

        Raises:
            StorageError: the disk has refused it so far.
        """
        self.wait()
        if (job := self._failed) is not None:
            raise StorageError(f"the checkpoint of step {job.snapshot.step} failed: {job.error}")

    # -- one waits, one is written ----------------------------------------------------------------

    def _put(self, job: _Job) -> None:
        with self._changed:
            if self._waiting is not None and self._waiting.needed:
                self._changed.wait_for(lambda: self._waiting is None)
            if self._waiting is not None:
                self.replaced += 1
                self._waiting.done.set()
            self._waiting = job
            if self._thread is None:
                # No daemon: one that runs torch when the interpreter ends would abort it.
                self._thread = threading.Thread(target=self._work, name="midstep-checkpoints")
                self._thread.start()

    def _work(self) -> None:
        while (job := self._next()) is not None:
            self._carry_out(job)

    def _next(self) -> _Job | None:
        with self._changed:
            job, self._waiting = self._waiting, None
            if job is None:
                self._thread = None
            self._changed.notify_all()
            return job

    def _carry_out(self, job: _Job) -> None:
        try:
            self._write(job)
        except MidstepError as error:
            job.error = error
            self._failed = job
            log.warning("%s", error)
            reason = f"the checkpoint of step {job.snapshot.step} cannot be written: {error}"
            self._hold(reason, self._retry)
        except Exception as error:
            # A fault of ours must not end somebody's training; whoever waits gets it.
            job.error = error
            log.exception("writing a checkpoint failed; training goes on without it")
        finally:
            job.done.set()

    def _retry(self) -> bool:
        """Asked again and again while the loop stands; True lets it go on."""
        job = self._failed
        if job is None:
            return True
        try:
            self._write(job)
        except MidstepError:
            return False
        return True

    def _write(self, job: _Job) -> None:
        began = time.monotonic()
        with self._disk:
            job.path = self.checkpoints.save(job.snapshot.to_host(), best=job.best)
        self.last, self._failed = job.path, None  # one that failed before is older
        took_s = time.monotonic() - began
        self._tell(**_fields(job), took_s=took_s, given_way=self.replaced)


def _fields(job: _Job) -> dict[str, Any]:
    snapshot = job.snapshot
    return {
        "kind": "checkpoint",
        "step": snapshot.step,
        "epoch": snapshot.epoch,
        "path": f"checkpoints/{job.path.name}" if job.path is not None else None,
        "cause": job.reason,
        "best": job.best,
        "bytes": snapshot.bytes,
    }

"""`CheckpointWriter`: the thread that writes checkpoints while the training continues.

The training thread clones a snapshot, this thread writes it. One snapshot may wait while another
is written. A newer one replaces the waiting one, unless a caller waits for it or it is the best: a
slow disk costs checkpoints, not steps. If the disk refuses, the loop parks until the write
succeeds: training on without checkpoints would silently break the promise of a resume.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from midstep.core.errors import MidstepError, StorageError
from midstep.session.checkpoint.checkpoint_store import CheckpointStore
from midstep.session.state.snapshot import Snapshot

log = logging.getLogger("midstep.session")


@dataclass
class _Job:
    snapshot: Snapshot
    reason: str
    best: bool
    needed: bool
    """Whether a newer snapshot must not replace it."""
    done: threading.Event = field(default_factory=threading.Event)
    path: Path | None = None
    error: BaseException | None = None

    def failure(self) -> StorageError:
        return StorageError(f"the checkpoint of step {self.snapshot.step} failed: {self.error}")


class CheckpointWriter:
    """Writes the checkpoints of one run, in a thread that lives while there is one to write.

    Args:
        checkpoints: where they go.
        record: called with the fields of the fact for each checkpoint on disk.
        park: parks the loop for a reason, until its second argument returns True.
    """

    def __init__(
        self,
        checkpoints: CheckpointStore,
        *,
        record: Callable[..., object],
        park: Callable[[str, Callable[[], bool]], object],
    ) -> None:
        self.checkpoints = checkpoints
        self.replaced = 0
        """Snapshots that were never written, because a newer one came before the disk was ready."""
        self.last: Path | None = None
        """The last checkpoint on disk."""
        self._record, self._park = record, park
        self._changed = threading.Condition()
        self._disk = threading.Lock()  # a retry runs on the training thread
        self._waiting: _Job | None = None
        self._failed: _Job | None = None
        self._thread: threading.Thread | None = None

    def write_soon(self, snapshot: Snapshot, reason: str, *, best: bool = False) -> None:
        """Queue a snapshot. Returns at once, unless one that must be written already waits."""
        self._enqueue(_Job(snapshot, reason, best, needed=best))

    def write_now(self, snapshot: Snapshot, reason: str) -> Path:
        """Write a snapshot; it is on disk when this returns.

        Raises:
            StorageError: the disk refuses it.
        """
        job = _Job(snapshot, reason, best=False, needed=True)
        self._enqueue(job)
        job.done.wait()
        if job.error is not None or job.path is None:
            raise job.failure()
        return job.path

    def wait(self) -> None:
        """Wait until nothing is queued and nothing is being written."""
        with self._changed:
            thread = self._thread
        if thread is not None:
            thread.join()

    def wait_or_raise(self) -> None:
        """Wait, and raise if the last checkpoint is not on disk.

        Raises:
            StorageError: the disk has refused it so far.
        """
        self.wait()
        if (job := self._failed) is not None:
            raise job.failure()

    # -- the queue of one, and the thread ---------------------------------------------------------

    def _enqueue(self, job: _Job) -> None:
        with self._changed:
            if self._waiting is not None and self._waiting.needed:
                self._changed.wait_for(lambda: self._waiting is None)
            if self._waiting is not None:
                self.replaced += 1
                self._waiting.done.set()
            self._waiting = job
            if self._thread is None:
                # Not a daemon: a thread that still runs torch when the interpreter exits aborts
                # the process. So it ends as soon as there is nothing to write.
                self._thread = threading.Thread(target=self._work, name="midstep-checkpoints")
                self._thread.start()

    def _work(self) -> None:
        while (job := self._next()) is not None:
            self._run_job(job)

    def _next(self) -> _Job | None:
        # Under the same lock as `_enqueue`: a job that is queued now either is returned here or
        # finds no thread and starts one.
        with self._changed:
            job, self._waiting = self._waiting, None
            if job is None:
                self._thread = None
            self._changed.notify_all()
            return job

    def _run_job(self, job: _Job) -> None:
        try:
            self._write(job)
        except MidstepError as error:
            job.error = error
            self._failed = job
            log.warning("%s", error)
            reason = f"the checkpoint of step {job.snapshot.step} cannot be written: {error}"
            self._park(reason, self._retry)
        except Exception as error:
            # A fault of ours must not end the training; `write_now` raises it to its caller.
            job.error = error
            log.exception("writing a checkpoint failed; training continues without it")
        finally:
            job.done.set()

    def _retry(self) -> bool:
        """Called repeatedly by the training thread while the loop is parked; True releases it."""
        job = self._failed
        if job is None:
            return True
        try:
            self._write(job)
        except MidstepError:
            return False
        return True

    def _write(self, job: _Job) -> None:
        began, snapshot = time.monotonic(), job.snapshot
        with self._disk:
            job.path = self.checkpoints.save(snapshot.to_host(), best=job.best)
        self.last, self._failed = job.path, None  # one that failed before is older
        self._record(
            kind="checkpoint",
            step=snapshot.step,
            epoch=snapshot.epoch,
            path=f"checkpoints/{job.path.name}",
            cause=job.reason,
            best=job.best,
            bytes=snapshot.bytes,
            took_s=time.monotonic() - began,
            given_way=self.replaced,
        )

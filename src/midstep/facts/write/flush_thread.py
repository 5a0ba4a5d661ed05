"""The thread of a facts writer: once a second it syncs, checks the files and derives the CSV.

It also writes queued records, in short turns with a pause after each. The pause leaves the
interpreter lock to callers: while they can write the queue themselves, they are faster at it.
"""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path

from midstep.core.errors import StorageError
from midstep.facts.write.record_files import RecordFiles
from midstep.facts.write.scalars_csv import write_scalars_csv
from midstep.facts.write.write_queue import WriteQueue

SYNC_EVERY_S = 1.0
"""How old an unsynced row can be: as much as a power cut may take."""
TURN_PAUSE_S = 0.001
CSV_SHARE = 0.01
"""The share of time that deriving `scalars.csv` may take, since it reads all epochs each time."""

_log = logging.getLogger("midstep.facts")


class FlushThread:
    """Does what no caller should wait for, once a second; `wake` makes it write the queue now."""

    def __init__(self, run_dir: Path, files: RecordFiles, queue: WriteQueue) -> None:
        self._run_dir, self._files, self._queue = run_dir, files, queue
        self._is_over = False
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, name="midstep-facts", daemon=True)
        self.is_csv_due = False
        """Whether an epoch has ended since `scalars.csv` was derived."""
        self._csv_not_before = 0.0

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def wake(self) -> None:
        """Write the queue now."""
        self._wake.set()

    def stop(self) -> None:
        """Stop the thread and do its work one last time; records that cannot be written are lost.

        The loss is logged as an error.
        """
        self._is_over = True
        self._wake.set()
        # `on_fault` is called in this thread and may close the writer; a thread cannot join itself.
        if self._thread is not threading.current_thread():
            self._thread.join()
        if self.retry() and self._queue.drain():
            self._queue.sync()
            if self.is_csv_due:
                self._derive_csv()
        else:
            _log.error("%d records were lost: %s", len(self._queue), self._queue.fault)

    def retry(self) -> bool:
        """Try to write again after a fault; True if the queue is empty now."""
        if self._queue.fault is None:
            return True
        # Moved files would take the records where no reader looks for them.
        return self._files.files_unchanged() and self._queue.retry()

    def _run(self) -> None:
        due = time.monotonic() + SYNC_EVERY_S
        while not self._is_over:
            self._wake.wait(max(0.0, due - time.monotonic()))
            self._wake.clear()
            self._drain_some()
            if time.monotonic() >= due:
                due = time.monotonic() + SYNC_EVERY_S
                self._check_files()

    def _drain_some(self) -> None:
        if not self._queue.is_queueing or self._queue.fault is not None:
            return
        if not self._queue.drain_some():
            self._wake.set()  # continue at once in the next round
            time.sleep(TURN_PAUSE_S)

    def _check_files(self) -> None:
        if not self._files.files_unchanged():
            self._queue.mark_fault(
                f"the facts in {self._run_dir} were moved, deleted or replaced; put them back"
            )
        elif self.retry():
            self._queue.sync()
            if self.is_csv_due and time.monotonic() >= self._csv_not_before:
                self._derive_csv()

    def _derive_csv(self) -> None:
        self.is_csv_due = False
        began = time.monotonic()
        try:
            write_scalars_csv(self._run_dir)
        except StorageError as error:  # nothing is lost: the next epoch derives it again
            _log.warning("%s", error)
        self._csv_not_before = began + (time.monotonic() - began) / CSV_SHARE

"""The thread of a facts writer: it empties the queue, fsyncs, and looks after the files.

It writes in short turns and rests after each: callers that log without a pause keep the
interpreter, and while they can help to write they are faster at it.
"""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path

from midstep.core.errors import StorageError
from midstep.facts.ledger import Ledger
from midstep.facts.outbox import Outbox
from midstep.facts.scalars_csv import write_scalars_csv

__all__ = ["SYNC_EVERY_S", "Tender"]

SYNC_EVERY_S = 1.0
REST_S = 0.001
CSV_SHARE = 0.01
"""Of the time that deriving `scalars.csv` may take: it is made anew from all epochs."""

_log = logging.getLogger("midstep.facts")


class Tender:
    """Does once a second what no caller should wait for; `wake` empties the queue at once."""

    def __init__(self, run_dir: Path, ledger: Ledger, outbox: Outbox) -> None:
        self._run_dir, self._ledger, self._outbox = run_dir, ledger, outbox
        self._is_over = False
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._tend, name="midstep-facts", daemon=True)
        self.is_csv_due = False
        """Whether an epoch ended since `scalars.csv` was derived."""
        self._csv_at = 0.0

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def wake(self) -> None:
        """Empty the queue now."""
        self._wake.set()

    def stop(self) -> None:
        """End the thread and do one last round; what could not be written is logged as lost."""
        self._is_over = True
        self._wake.set()
        if self._thread is not threading.current_thread():  # on_fault may be called from there
            self._thread.join()
        if self.retry() and self._outbox.drain():
            self._outbox.sync()
            if self.is_csv_due:
                self._derive_csv()
        else:
            _log.error("%d records were lost: %s", len(self._outbox), self._outbox.fault)

    def retry(self) -> bool:
        """Try again after a fault; True when everything that waited is written."""
        if self._outbox.fault is None:
            return True
        return self._ledger.in_place() and self._outbox.retry()

    def _tend(self) -> None:
        due = time.monotonic() + SYNC_EVERY_S
        while not self._is_over:
            self._wake.wait(max(0.0, due - time.monotonic()))
            self._wake.clear()
            self._take_turn()
            if time.monotonic() >= due:
                due = time.monotonic() + SYNC_EVERY_S
                self._look_after_files()

    def _take_turn(self) -> None:
        if not self._outbox.is_waiting or self._outbox.fault is not None:
            return
        if not self._outbox.take_turn():
            self._wake.set()
            time.sleep(REST_S)

    def _look_after_files(self) -> None:
        if not self._ledger.in_place():
            self._outbox.mark_fault(
                f"the facts in {self._run_dir} were moved, deleted or replaced; put them back"
            )
        elif self.retry():
            self._outbox.sync()
            if self.is_csv_due and time.monotonic() >= self._csv_at:
                self._derive_csv()

    def _derive_csv(self) -> None:
        self.is_csv_due = False
        began = time.monotonic()
        try:
            write_scalars_csv(self._run_dir)
        except StorageError as error:  # derived: the next epoch tries again
            _log.warning("%s", error)
        self._csv_at = began + (time.monotonic() - began) / CSV_SHARE

"""`lease.json`: which process runs a run directory, how far it is, and where to reach it.

A heartbeat thread replaces the file once a second.
"""

from __future__ import annotations

import atexit
import logging
import os
import platform
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from midstep.core import strict_json
from midstep.core.errors import FormatError, StorageError
from midstep.core.files.storage import remove_temporaries, replace_json
from midstep.core.files.untrusted_files import read_plain
from midstep.facts.liveness.run_lock import RunLock, boot_id

BEAT_EVERY_S = 1.0
LARGEST_LEASE_BYTES = 64 << 10
"""A lease has about 500 bytes; midstep writes no larger file."""
Unchanged = Literal["kept"]
"""The default of an argument that leaves a value as it is."""

_log = logging.getLogger("midstep.facts")
_leases: weakref.WeakSet[Lease] = weakref.WeakSet()


class LoopProgress(NamedTuple):
    """How far a loop is; part of every heartbeat."""

    step: int
    """Finished optimizer steps."""
    boundaries: int
    """Step boundaries that it has passed."""
    moving: bool
    """Whether the next boundary is due soon: it is not paused, and runs no long command."""
    state: str | None = None
    """The state of its controller, for lists: running, paused, busy."""
    about: Mapping[str, Any] = MappingProxyType({})
    """Further counters that the loop reported: epoch, total_epochs, total_steps."""


class Lease:
    """The right to write a run directory, held together with its lock and shown in `lease.json`.

    The file holds counters, not only times: a reader on another host sees by its own clock whether
    they change. A reader on this machine shares the monotonic clock.

    >>> import tempfile
    >>> with Lease.acquire(folder := tempfile.mkdtemp(), "0123456789ab") as lease:
    ...     lease.report_progress(lambda: LoopProgress(step=3, boundaries=3, moving=True))
    ...     read_lease(folder)["step"]
    3
    """

    def __init__(
        self,
        run_dir: Path,
        lock: RunLock,
        content: dict[str, Any],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.run_dir = run_dir
        self._lock, self._content, self._clock = lock, content, clock
        self._read_progress: Callable[[], LoopProgress] | None = None
        self._path = run_dir / "lease.json"
        self._is_over = threading.Event()
        self._writing = threading.Lock()
        self._is_failing = False
        self._write()
        self._thread = threading.Thread(target=self._beat, name="midstep-lease", daemon=True)
        _leases.add(self)
        atexit.register(self.release)
        self._thread.start()

    @classmethod
    def acquire(
        cls,
        run_dir: str | os.PathLike[str],
        run_id: str,
        attempt: int = 1,
        *,
        server_url: str | None = None,
        socket: str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> Lease:
        """Take the run directory.

        Raises:
            RunHeldError: if another process has it; the message names process, host and time.
        """
        folder = Path(run_dir)
        lock = RunLock.acquire(folder)
        content: dict[str, Any] = {
            "run_id": run_id,
            "attempt": attempt,
            "pid": os.getpid(),
            "host": platform.node(),
            "boot_id": boot_id(),
            "started": time.time(),
            "heartbeat": 0,
            "heartbeat_wall": time.time(),
            "heartbeat_mono": clock(),
            "step": None,
            "boundary_count": None,
            "boundary_wall": None,
            "boundary_mono": None,
            "moving": None,
            "state": None,
            "url": server_url,
            "socket": socket,
        }
        try:
            remove_temporaries(folder)
            return cls(folder, lock, content, clock)
        except BaseException:
            lock.release()
            raise

    def report_progress(self, read_progress: Callable[[], LoopProgress]) -> None:
        """Call `read_progress` at every heartbeat. The loop itself does nothing for it."""
        self._read_progress = read_progress
        self._try_write()

    def reachable_at(
        self,
        *,
        server_url: str | Unchanged | None = "kept",
        socket: str | Unchanged | None = "kept",
    ) -> None:
        """Write now where the run can be reached; None if it no longer can be reached there."""
        if self._is_over.is_set():  # it would write the file again that `release` has removed
            return
        addresses = {"url": server_url, "socket": socket}
        self._content |= {name: address for name, address in addresses.items() if address != "kept"}
        self._try_write()

    @property
    def socket(self) -> str | None:
        """The Unix socket of the run; None if it has none."""
        socket = self._content["socket"]
        return None if socket is None else str(socket)

    def release(self) -> None:
        """Stop the heartbeat, remove `lease.json`, release the run directory. Idempotent."""
        if self._is_over.is_set():
            return
        self._is_over.set()
        atexit.unregister(self.release)
        self._thread.join()  # a heartbeat after the unlink would write the file again
        with suppress(OSError):  # already gone with the folder
            self._path.unlink()
        self._lock.release()  # last: whoever gets the lock finds no lease of ours

    def _beat(self) -> None:
        while not self._is_over.wait(BEAT_EVERY_S):
            self._content["heartbeat"] += 1
            self._try_write()

    def _try_write(self) -> None:
        """Write the file; a failure is logged once. The lock still shows that we live."""
        try:
            self._write()
        except StorageError as error:
            if not self._is_failing:
                _log.warning("%s", error)
            self._is_failing = True
        else:
            self._is_failing = False

    def _write(self) -> None:
        with self._writing:  # the heartbeat and `reachable_at` run in different threads
            self._content |= {"heartbeat_wall": time.time(), "heartbeat_mono": self._clock()}
            self._note_progress()
            # No fsync: after a power cut the boot id tells that the lease is void.
            replace_json(self._path, self._content, durable=False, mode=0o600)

    def _note_progress(self) -> None:
        """Update the counters. While no boundary is due, its time is now: nothing is late."""
        if self._read_progress is None:
            return
        progress, last_boundary = self._read_progress(), self._content["boundary_count"]
        # The heartbeat reads how far the loop is, so the loop itself writes no times.
        if progress.boundaries != last_boundary:
            self._content["boundary_wall"] = time.time()
        if progress.boundaries != last_boundary or not progress.moving:
            self._content["boundary_mono"] = self._clock()
        self._content |= {
            "step": progress.step,
            "boundary_count": progress.boundaries,
            "moving": progress.moving,
            "state": progress.state,
            **progress.about,
        }

    def __enter__(self) -> Lease:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def _abandon(self) -> None:
        """Release nothing in a forked child: the lease belongs to the parent."""
        # New objects: a thread of the parent may have held the old ones at the moment of the fork,
        # and no thread of the child would ever release them.
        self._is_over = threading.Event()
        self._is_over.set()
        self._writing = threading.Lock()
        atexit.unregister(self.release)


def read_lease(run_dir: str | os.PathLike[str]) -> dict[str, Any] | None:
    """The lease of a run directory; None if there is none, or it cannot be read."""
    try:
        content = strict_json.loads(read_plain(Path(run_dir) / "lease.json", LARGEST_LEASE_BYTES))
    except (OSError, FormatError):
        return None
    if not isinstance(content, dict):
        return None
    return {name: None if _is_absurd(value) else value for name, value in content.items()}


def _is_absurd(value: Any) -> bool:
    """Whether a number is beyond every step and every time; it would overflow where it is used."""
    return isinstance(value, int | float) and not abs(value) < 1e15


def _abandon_in_child() -> None:
    for lease in list(_leases):
        lease._abandon()
    _leases.clear()


os.register_at_fork(after_in_child=_abandon_in_child)

"""The lease: who runs a run directory now, how far it is, and where it can be reached."""

from __future__ import annotations

import atexit
import json
import logging
import os
import platform
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Literal, NamedTuple

from midstep.core.errors import StorageError
from midstep.core.storage import remove_temporaries, replace_json
from midstep.facts.lock import RunLock, boot_id

__all__ = ["Lease", "Progress", "read_lease"]

BEAT_EVERY_S = 1.0
Kept = Literal["kept"]
"""Stands for what is left as it is."""

_log = logging.getLogger("midstep.facts")
_leases: weakref.WeakSet[Lease] = weakref.WeakSet()


class Progress(NamedTuple):
    """How far a loop is, as the heartbeat is told."""

    step: int
    """Finished optimizer steps."""
    boundaries: int
    """Boundaries between two steps that it has passed."""
    moving: bool
    """Whether it should reach the next one soon: it neither stands nor does something declared."""
    state: str | None = None
    """What its controller calls that, for lists: running, paused, busy."""
    about: Mapping[str, Any] = MappingProxyType({})
    """Further counters, as far as the loop told them: epoch, total_epochs, total_steps."""


class Lease:
    """The right to write a run directory, held together with its lock and shown in `lease.json`.

    A thread replaces the file once a second. It carries counters, since a reader on another
    host judges by its own clock whether they move; a reader on this machine shares its clock.

    >>> import tempfile
    >>> with Lease.acquire(folder := tempfile.mkdtemp(), "0123456789ab") as lease:
    ...     lease.follow(lambda: Progress(step=3, boundaries=3, moving=True))
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
        self._look: Callable[[], Progress] | None = None
        self._path = run_dir / "lease.json"
        self._is_over = threading.Event()
        self._writing = threading.Lock()
        self._is_failing = False
        self._write()
        self._thread = threading.Thread(target=self._keep, name="midstep-lease", daemon=True)
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
        """Take the run directory, or raise `RunHeldError` that names process, host and time."""
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

    def follow(self, look: Callable[[], Progress]) -> None:
        """Ask `look` at every heartbeat how far the loop is; so the loop itself notes nothing."""
        self._look = look
        self._try_write()

    def reachable_at(
        self, *, server_url: str | Kept | None = "kept", socket: str | Kept | None = "kept"
    ) -> None:
        """Write at once where the run can be reached now; None where it no longer can."""
        told = {"url": server_url, "socket": socket}
        self._content |= {name: place for name, place in told.items() if place != "kept"}
        self._try_write()

    @property
    def socket(self) -> str | None:
        """The Unix socket that answers for the run; None while there is none."""
        found = self._content["socket"]
        return None if found is None else str(found)

    def release(self) -> None:
        """Stop the heartbeat, remove `lease.json`, let the run directory go. Idempotent."""
        if self._is_over.is_set():
            return
        self._is_over.set()
        atexit.unregister(self.release)
        self._thread.join()
        with suppress(OSError):  # already gone with the folder
            self._path.unlink()
        self._lock.release()

    def _keep(self) -> None:
        while not self._is_over.wait(BEAT_EVERY_S):
            self._content["heartbeat"] += 1
            self._try_write()

    def _try_write(self) -> None:
        """A heartbeat that cannot be written is said once; the lock still tells that we live."""
        try:
            self._write()
        except StorageError as error:
            if not self._is_failing:
                _log.warning("%s", error)
            self._is_failing = True
        else:
            self._is_failing = False

    def _write(self) -> None:
        with self._writing:
            self._content |= {"heartbeat_wall": time.time(), "heartbeat_mono": self._clock()}
            self._note_progress()
            replace_json(self._path, self._content, durable=False)

    def _note_progress(self) -> None:
        """The boundary's time is renewed when one was passed, and while none is due."""
        if self._look is None:
            return
        found, known = self._look(), self._content["boundary_count"]
        if found.boundaries != known:
            self._content["boundary_wall"] = time.time()
        if found.boundaries != known or not found.moving:
            self._content["boundary_mono"] = self._clock()
        self._content |= {
            "step": found.step,
            "boundary_count": found.boundaries,
            "moving": found.moving,
            "state": found.state,
            **found.about,
        }

    def __enter__(self) -> Lease:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.release()

    def _abandon(self) -> None:
        """In a forked child: the lease stays with the parent."""
        self._is_over = threading.Event()
        self._is_over.set()
        self._writing = threading.Lock()
        atexit.unregister(self.release)


def read_lease(run_dir: str | os.PathLike[str]) -> dict[str, Any] | None:
    """The lease of a run directory; None when there is none that can be read."""
    try:
        found = json.loads((Path(run_dir) / "lease.json").read_bytes())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def _abandon_in_child() -> None:
    for lease in list(_leases):
        lease._abandon()
    _leases.clear()


os.register_at_fork(after_in_child=_abandon_in_child)

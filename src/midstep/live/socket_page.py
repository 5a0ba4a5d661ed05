"""A run answers on a Unix socket, so that `midstep serve` of the same user can show and steer it.

The socket is bound at once, which is cheap. The app behind it is built when somebody first knocks:
until then nothing of a web server is loaded, and one sleeping thread is all there is.
"""

from __future__ import annotations

import atexit
import logging
import os
import selectors
import socket
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from midstep.core.errors import MidstepError, StorageError
from midstep.live.mode import current_mode
from midstep.live.socket_folder import bind_socket

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from midstep.server.thread import ServerThread
    from midstep.session import Run

__all__ = ["RunSocket", "SocketPage", "reachable"]

log = logging.getLogger("midstep.live")


@contextmanager
def reachable(run: Run) -> Iterator[None]:
    """Let `midstep serve` reach `run` until the block ends; the lease names the socket.

    Nothing happens where MIDSTEP_MODE is not `live`, or where the run is reachable already.

    >>> import tempfile
    >>> from midstep.session import Run
    >>> with Run(name="a", save_dir=tempfile.mkdtemp()) as run, reachable(run):
    ...     run.lease.socket.endswith(".sock")
    True
    """
    page = SocketPage(run)
    try:
        yield
    finally:
        page.close()


class RunSocket:
    """A bound socket of a run, named by its lease; gone from both when closed."""

    def __init__(self, run: Run, path: Path, listening: socket.socket) -> None:
        self.path, self.listening = path, listening
        self._run, self._pid = run, os.getpid()
        atexit.register(self.close)
        run.lease.reachable_at(socket=str(path))

    @classmethod
    def bind(cls, run: Run) -> RunSocket | None:
        """The socket of a run; None where it is not wanted, is there, or cannot be had."""
        if current_mode() != "live" or run.lease.socket is not None:
            return None
        try:
            path, listening = bind_socket(run.run_id)
        except StorageError as error:  # the run itself needs no socket
            log.warning("midstep serve cannot reach this run: %s", error)
            return None
        return cls(run, path, listening)

    def close(self) -> None:
        """Take it away; in a forked child it stays, since it is the parent's."""
        if os.getpid() != self._pid:
            return
        atexit.unregister(self.close)
        with suppress(OSError):  # gone with its folder
            self.path.unlink()
        with suppress(OSError):  # closed by the server already
            # Also where a forked loader worker still holds a copy.
            self.listening.shutdown(socket.SHUT_RDWR)
        self.listening.close()
        self._run.lease.reachable_at(socket=None)


class SocketPage:
    """Waits for the first knock at a run's socket, then serves the run's app there.

    Args:
        run: the run to reach.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._server: ServerThread | None = None
        self._socket = RunSocket.bind(run)
        if self._socket is None:
            return
        self._wake, self._woken = socket.socketpair()
        self._thread = threading.Thread(target=self._wait, name="midstep-knock", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the server, the thread and the socket; closing twice is fine."""
        held, self._socket = self._socket, None
        if held is None:
            return
        # A byte, since closing is not seen while a forked loader worker holds a copy.
        self._wake.send(b"x")
        self._thread.join()
        self._wake.close()
        self._woken.close()
        if self._server is not None:
            self._server.close()
        held.close()

    def _wait(self) -> None:
        held = self._socket
        if held is None:  # closed before the thread began
            return
        with selectors.DefaultSelector() as selector:
            selector.register(held.listening, selectors.EVENT_READ)
            selector.register(self._woken, selectors.EVENT_READ)
            ready = {key.fileobj for key, _ in selector.select()}
        if self._woken not in ready:
            self._open(held.listening)

    def _open(self, listening: socket.socket) -> None:
        try:
            self._server = serve_on(self._run, listening)
        except (ImportError, OSError, MidstepError):
            log.exception("midstep serve cannot reach this run; training goes on")


def serve_on(run: Run, listening: socket.socket) -> ServerThread:
    """The run's own app on a socket, with the tokens of the folder that holds the run."""
    from midstep.server.app import create_app
    from midstep.server.guard import GuardConfig
    from midstep.server.run_table import RunTable
    from midstep.server.thread import ServerThread
    from midstep.server.tokens import KeptTokens

    runs = RunTable()
    runs.add(run)
    guard = GuardConfig(tokens=KeptTokens(run.dir.parent))
    server = ServerThread(create_app(runs, guard=guard), listening=listening)
    server.start()
    return server

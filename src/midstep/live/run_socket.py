"""The Unix socket of a run, on which `midstep serve` of the same user shows and controls it.

The socket is bound when the run begins, which is cheap. The web app is built at the first
connection: until then no web server is imported, and the only cost is one sleeping thread.
"""

from __future__ import annotations

import atexit
import errno
import fcntl
import hashlib
import logging
import os
import platform
import selectors
import socket
import stat
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from midstep.core.errors import MidstepError, StorageError
from midstep.core.files.storage import storage_error
from midstep.core.files.user_state import user_folder
from midstep.live.mode import current_mode

if TYPE_CHECKING:
    from fastapi import FastAPI

    from midstep.server.auth.tokens import KeptTokens
    from midstep.server.transport.server_thread import ServerThread
    from midstep.session import Run

log = logging.getLogger("midstep.live")
LONGEST_PATH_BYTES = 103
"""Longest path that every system accepts: 108 bytes with the final zero on Linux, 104 elsewhere."""
BACKLOG = 128
LOCK_TIMEOUT_S = 1.0
_NAME_BYTES = len("/0123456789ab-4194304-123456.sock")  # run id, largest process id, host mark


def socket_folder() -> Path:
    """The user's folder for sockets, made if needed, owned by the user and with mode 0700.

    It is in `$XDG_RUNTIME_DIR`, in the state folder or in the folder for temporary files: the first
    one whose paths are short enough.
    """
    problems = []
    for folder in _candidates():
        if len(os.fsencode(folder)) + _NAME_BYTES > LONGEST_PATH_BYTES:
            problems.append(f"{folder} is too long a path")
            continue
        try:
            _make_private(folder)
        except OSError as error:
            problems.append(f"{folder}: {error.strerror or error}")
            continue
        return folder
    raise StorageError(
        f"no folder for this run's socket ({'; '.join(problems)}); "
        "set XDG_RUNTIME_DIR to a short folder that only you may enter"
    )


def _candidates() -> Iterator[Path]:
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime and Path(runtime).is_dir():
        yield Path(runtime) / "midstep"
    with suppress(StorageError):  # a user without a home has no state folder
        yield user_folder("state") / "sockets"
    yield Path(tempfile.gettempdir()) / f"midstep-{os.getuid()}"


def _make_private(folder: Path) -> None:
    """Make a folder that only this user may enter.

    Anybody may create the folder in the temporary one first, or put a link there, to catch the
    tokens that are sent to the socket. So the folder must belong to this user.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = folder.lstat()  # not `stat`, which follows a link
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
        raise PermissionError(errno.EPERM, "it belongs to another user")
    if status.st_mode & 0o077:
        folder.chmod(0o700)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, "no permission to write")


def bind_socket(run_id: str) -> tuple[Path, socket.socket]:
    """A listening socket for a run, and its path; removes the sockets that killed runs left."""
    folder = socket_folder()
    path = folder / f"{run_id}-{os.getpid()}-{_host_mark()}.sock"
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # While `bind` runs, the file exists before its socket does, and looks stale. The lock keeps
        # another process that starts now from removing it.
        with _folder_lock(folder) as is_locked:
            if is_locked:
                _remove_stale(folder)
            listening.bind(str(path))
        path.chmod(0o600)
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        raise storage_error(path, "bind the socket", error) from error
    return path, listening


def _host_mark() -> str:
    """Identifies this machine: a home folder on a network has the sockets of several machines."""
    return hashlib.blake2b(platform.node().encode(), digest_size=3).hexdigest()


@contextmanager
def _folder_lock(folder: Path) -> Iterator[bool]:
    """Lock the folder for the block; False if it cannot be locked in time."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield _try_lock(descriptor)
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    deadline = time.monotonic() + LOCK_TIMEOUT_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:  # a suspended process holds it: remove nothing then
                return False
            time.sleep(0.01)
        except OSError:  # a file system without locks
            return False
        else:
            return True


def _remove_stale(folder: Path) -> None:
    for path in folder.glob(f"*-{_host_mark()}.sock"):
        if _is_stale(path):
            with suppress(OSError):  # another process removed it first
                path.unlink()


def _is_stale(path: Path) -> bool:
    """Whether no process listens there.

    A datagram socket cannot connect to a stream socket: a live one answers with EPROTOTYPE, a dead
    one refuses. A stream socket would connect, and so wake the web app of a live run.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as probe, suppress(OSError):
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            return True
    return False


@contextmanager
def serve_on_socket(run: Run) -> Iterator[RunSocketServer | None]:
    """Let `midstep serve` reach `run` until the block ends; the lease names the socket.

    Nothing happens, and the block gets None, if MIDSTEP_MODE is not `live`, or if the run already
    has a socket.

    >>> import tempfile
    >>> from midstep.session import Run
    >>> with Run(name="a", save_dir=tempfile.mkdtemp()) as run, serve_on_socket(run):
    ...     run.lease.socket.endswith(".sock")
    True
    """
    bound = RunSocket.bind(run)
    if bound is None:
        yield None
        return
    server = RunSocketServer(run, bound)
    try:
        yield server
    finally:
        server.close()


class RunSocket:
    """The bound socket of a run. The lease of the run names its path until it is closed."""

    def __init__(self, run: Run, path: Path, listening: socket.socket) -> None:
        self.path, self.listening = path, listening
        self._run, self._pid = run, os.getpid()
        atexit.register(self.close)  # a script may end without leaving the block
        run.lease.reachable_at(socket=str(path))

    @classmethod
    def bind(cls, run: Run) -> RunSocket | None:
        """Bind a socket; None if MIDSTEP_MODE is not `live`, the run has one, or it fails."""
        if current_mode() != "live" or run.lease.socket is not None:
            return None
        try:
            path, listening = bind_socket(run.run_id)
        except StorageError as error:  # the run works without a socket
            log.warning("midstep serve cannot reach this run: %s", error)
            return None
        return cls(run, path, listening)

    def close(self) -> None:
        """Close and remove the socket; closing twice is fine."""
        if os.getpid() != self._pid:  # a forked child exits: the socket belongs to the parent
            return
        atexit.unregister(self.close)
        with suppress(OSError):  # removed together with its folder
            self.path.unlink()
        with suppress(OSError):  # the server closed it already
            # `close` alone does not end the socket while a forked loader worker has a copy of it.
            self.listening.shutdown(socket.SHUT_RDWR)
        self.listening.close()
        self._run.lease.reachable_at(socket=None)


class RunSocketServer:
    """Waits for the first connection to a run's socket, then serves the run's app there.

    Args:
        run: the run to serve.
        bound: its socket; closed together with the server.
    """

    def __init__(self, run: Run, bound: RunSocket) -> None:
        self._run, self._socket, self._process = run, bound, os.getpid()
        self._server: ServerThread | None = None
        self._wake, self._woken = socket.socketpair()
        self._thread = threading.Thread(target=self._wait, name="midstep-knock", daemon=True)
        self._thread.start()

    @property
    def is_connected(self) -> bool:
        """Whether anybody has connected so far."""
        return self._server is not None

    def close(self) -> None:
        """End the thread, the server and the socket."""
        if os.getpid() != self._process:
            return  # a forked child has copies of both sockets, and no thread
        # A byte, because closing `_wake` is not noticed while a forked loader worker has a copy.
        self._wake.send(b"x")
        self._thread.join()
        self._wake.close()
        self._woken.close()
        if self._server is not None:
            self._server.close()
        self._socket.close()

    def _wait(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._socket.listening, selectors.EVENT_READ)
            selector.register(self._woken, selectors.EVENT_READ)
            ready = {key.fileobj for key, _ in selector.select()}
        if self._woken in ready:
            return
        try:
            self._server = self._start_server()
        except (ImportError, OSError, MidstepError):
            log.exception("midstep serve cannot reach this run; training continues")

    def _start_server(self) -> ServerThread:
        from midstep.server.auth.tokens import KeptTokens
        from midstep.server.transport.server_thread import ServerThread

        app = run_app(self._run, KeptTokens(self._run.dir.parent))
        server = ServerThread(app, listening=self._socket.listening)
        server.start()
        return server


def run_app(run: Run, tokens: KeptTokens, allowed_hosts: tuple[str, ...] = ()) -> FastAPI:
    """The web app of one run, with the tokens of the folder that its directory is in."""
    from midstep.server.app import create_app
    from midstep.server.auth.guard import GuardConfig
    from midstep.server.runs.run_table import RunTable

    runs = RunTable()
    runs.add(run)
    return create_app(runs, guard=GuardConfig(tokens=tokens, allowed_hosts=allowed_hosts))

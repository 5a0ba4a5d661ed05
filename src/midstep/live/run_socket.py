"""A run answers on a Unix socket, so that `midstep serve` of the same user can show and steer it.

The socket is bound at once, which is cheap. The app behind it is built when somebody first knocks:
until then nothing of a web server is loaded, and one sleeping thread is all there is.
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
    from midstep.server.transport.server_thread import ServerThread
    from midstep.session import Run


LONGEST_PATH_BYTES = 103
"""What every system takes: 108 bytes with the closing zero on Linux, 104 elsewhere."""
BACKLOG = 128
PATIENCE_S = 1.0
_NAME_BYTES = len("/0123456789ab-4194304-123456.sock")


def socket_folder() -> Path:
    """The user's folder for sockets, made if need be, with mode 0700 and owned by the user.

    In `$XDG_RUNTIME_DIR`, else in the state folder, else in the folder for temporary files: the
    first whose paths are short enough.
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
    """Make sure of a folder that is ours alone; one that somebody else put there is refused."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise PermissionError(errno.EPERM, "it belongs to somebody else")
    if found.st_mode & 0o077:
        folder.chmod(0o700)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, "no permission to write")


def bind_socket(run_id: str) -> tuple[Path, socket.socket]:
    """A listening socket for a run, and its path; sockets that killed runs left are removed."""
    folder = socket_folder()
    path = folder / f"{run_id}-{os.getpid()}-{_host_mark()}.sock"
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with _alone_in(folder) as alone:
            if alone:
                _remove_stale(folder)
            made.bind(str(path))
        path.chmod(0o600)
        made.listen(BACKLOG)
    except OSError as error:
        made.close()
        raise storage_error(path, "bind the socket", error) from error
    return path, made


def _host_mark() -> str:
    """Tells this machine's sockets from those of others that share the folder over a network."""
    return hashlib.blake2b(platform.node().encode(), digest_size=3).hexdigest()


@contextmanager
def _alone_in(folder: Path) -> Iterator[bool]:
    """Hold the folder, so that no socket is judged in the moment of its birth; False if in use."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield _locked(descriptor)
    finally:
        os.close(descriptor)


def _locked(descriptor: int) -> bool:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:  # its holder is stopped; we bind without sweeping
                return False
            time.sleep(0.01)
        except OSError:  # a file system without locks
            return False
        else:
            return True


def _remove_stale(folder: Path) -> None:
    for path in folder.glob(f"*-{_host_mark()}.sock"):
        if _is_stale(path):
            with suppress(OSError):  # another process removes it as well
                path.unlink()


def _is_stale(path: Path) -> bool:
    """Whether nobody listens there; asked without knocking.

    A datagram cannot go to a socket of streams: one that lives says so, one that is dead refuses.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as asking:
        try:
            asking.connect(str(path))
        except ConnectionRefusedError:
            return True
        except OSError:
            return False
    return False


log = logging.getLogger("midstep.live")


@contextmanager
def serve_on_socket(run: Run) -> Iterator[None]:
    """Let `midstep serve` reach `run` until the block ends; the lease names the socket.

    Nothing happens where MIDSTEP_MODE is not `live`, or where the run is reachable already.

    >>> import tempfile
    >>> from midstep.session import Run
    >>> with Run(name="a", save_dir=tempfile.mkdtemp()) as run, serve_on_socket(run):
    ...     run.lease.socket.endswith(".sock")
    True
    """
    page = RunSocketServer(run)
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


class RunSocketServer:
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
    from midstep.server.auth.guard import GuardConfig
    from midstep.server.auth.tokens import KeptTokens
    from midstep.server.runs.run_table import RunTable
    from midstep.server.transport.server_thread import ServerThread

    runs = RunTable()
    runs.add(run)
    guard = GuardConfig(tokens=KeptTokens(run.dir.parent))
    server = ServerThread(create_app(runs, guard=guard), listening=listening)
    server.start()
    return server

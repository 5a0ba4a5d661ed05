"""Where the Unix sockets of a user's runs stand: a folder that nobody else may enter.

Never in the run directory: the path of a socket ends at 107 bytes, and a shared disk carries none.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import platform
import socket
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from midstep.client.places import state_folder
from midstep.core.errors import StorageError
from midstep.core.storage import storage_error

__all__ = ["bind_socket", "socket_folder"]

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
        yield state_folder() / "sockets"
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

"""Which port to serve on: the one asked for, the last one used, or the first free of a range."""

from __future__ import annotations

import errno
import socket
from pathlib import Path

from midstep.core.errors import ConfigError, StorageError
from midstep.core.files import storage
from midstep.core.files.user_state import read_state_file, root_file

PORTS = range(8765, 8785)
BACKLOG = 1024


def bind(host: str, port: int) -> socket.socket:
    """A listening socket, so that a taken port is known before any thread starts.

    Raises:
        ConfigError: the port is taken, or the host is not an address of this machine.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Said to be TCP, so that asyncio sends small answers at once: else the second one on a
    # connection waits 40 ms for the peer to acknowledge its header.
    made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host, port))
        made.listen(BACKLOG)
    except (OSError, OverflowError) as error:
        made.close()
        raise ConfigError(_reason(host, port, error)) from None
    return made


def _reason(host: str, port: int, error: Exception) -> str:
    if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
        return f"port {port} is taken. Choose another with --port, or leave it out."
    if isinstance(error, OSError) and error.errno == errno.EACCES:
        return f"port {port} is reserved. Choose one above 1023 with --port."
    return f"cannot serve on {host}:{port} ({error}). Choose another host or port."


def bind_for_root(outputs_root: str | Path, *, host: str, port: int | None) -> socket.socket:
    """A socket for the runs of `outputs_root`; an explicit taken port is an error."""
    if port is not None:
        return bind(host, port)
    path = root_file(outputs_root, "port")
    kept = (read_state_file(path) or {}).get("port")
    last = [kept] if isinstance(kept, int) and 1023 < kept < 65536 else []
    for candidate in (*last, *PORTS):
        try:
            made = bind(host, candidate)
        except ConfigError:
            continue
        _remember(path, candidate)
        return made
    raise ConfigError(
        f"all ports from {PORTS.start} to {PORTS.stop - 1} are taken. Choose one with --port."
    )


def _remember(path: Path, port: int) -> None:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        storage.replace_json(path, {"port": port}, durable=False)
    except (OSError, StorageError):
        return  # a port that is not remembered only means another link next time

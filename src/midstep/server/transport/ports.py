"""Which port to serve on: the given one, the last one used, or the first free one of a range."""

from __future__ import annotations

import errno
import socket
from pathlib import Path

from midstep.core.errors import ConfigError, StorageError
from midstep.core.files import storage
from midstep.core.files.user_state import read_state_file, root_file

PORTS = range(8765, 8785)
BACKLOG = 1024
"""Connections that the kernel queues while the training thread holds the GIL."""


def bind(host: str, port: int) -> socket.socket:
    """A listening socket, so that a taken port is known before any thread starts.

    Raises:
        ConfigError: the port is taken, or the host is not an address of this machine.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With an explicit IPPROTO_TCP asyncio sets TCP_NODELAY. Otherwise the second small response on
    # a connection waits 40 ms until the peer acknowledges the header.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except (OSError, OverflowError) as error:
        listener.close()
        raise ConfigError(_reason(host, port, error)) from None
    return listener


def _reason(host: str, port: int, error: Exception) -> str:
    if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
        return f"port {port} is taken. Choose another with --port, or leave it out."
    if isinstance(error, OSError) and error.errno == errno.EACCES:
        return f"port {port} is reserved. Choose one above 1023 with --port."
    return f"cannot serve on {host}:{port} ({error}). Choose another host or port."


def bind_for_root(outputs_root: str | Path, *, host: str, port: int | None) -> socket.socket:
    """A listening socket for the runs of `outputs_root`. A given port that is taken is an error."""
    if port is not None:
        return bind(host, port)
    path = root_file(outputs_root, "port")
    saved = (read_state_file(path) or {}).get("port")
    last = [saved] if isinstance(saved, int) and 1023 < saved < 65536 else []
    for candidate in (*last, *PORTS):
        try:
            listener = bind(host, candidate)
        except ConfigError:
            continue
        _save_port(path, candidate)
        return listener
    raise ConfigError(
        f"all ports from {PORTS.start} to {PORTS.stop - 1} are taken. Choose one with --port."
    )


def _save_port(path: Path, port: int) -> None:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        storage.replace_json(path, {"port": port}, durable=False)
    except (OSError, StorageError):
        return  # the next server then gets another port, and with it another link

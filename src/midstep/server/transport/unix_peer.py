"""The user at the other end of a Unix socket; only the own user is trusted."""

from __future__ import annotations

import os
import socket
import struct
from typing import Any

_CREDENTIALS = struct.Struct("3i")
"""`struct ucred` of Linux: process id, user id, group id."""


def peer_uid(connection: Any) -> int | None:
    """The user id of the peer of a Unix socket; None where the system cannot tell.

    >>> here, there = socket.socketpair(socket.AF_UNIX)
    >>> with here, there:
    ...     peer_uid(here) in (os.getuid(), None)
    True
    """
    if not hasattr(socket, "SO_PEERCRED"):
        return None  # macOS: there only the mode 0700 of the socket's folder keeps others out
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(credentials)[1])


def is_foreign(connection: Any) -> bool:
    """Whether the peer of a Unix socket is another user; False for other kinds of sockets."""
    if connection is None or connection.family != socket.AF_UNIX:
        return False
    return peer_uid(connection) not in (os.geteuid(), None)

"""Who is at the other end of a Unix socket: only this very user is spoken with."""

from __future__ import annotations

import os
import socket
import struct
from typing import Any

_CREDENTIALS = struct.Struct("3i")
"""Process, user and group, as Linux gives them."""


def peer_uid(connection: Any) -> int | None:
    """The user id behind a connected Unix socket; None where the system does not say.

    >>> here, there = socket.socketpair(socket.AF_UNIX)
    >>> with here, there:
    ...     peer_uid(here) in (os.getuid(), None)
    True
    """
    if not hasattr(socket, "SO_PEERCRED"):
        return None  # the folder's mode keeps others out there
    told = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(told)[1])


def is_foreign(connection: Any) -> bool:
    """Whether a Unix socket leads to another user; never so for other sockets."""
    if connection is None or connection.family != socket.AF_UNIX:
        return False
    return peer_uid(connection) not in (os.geteuid(), None)

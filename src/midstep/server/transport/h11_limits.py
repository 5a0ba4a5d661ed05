"""The HTTP protocol of our server: h11, with limits that uvicorn lacks."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from contextlib import suppress
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from midstep.server.transport.unix_peer import is_foreign

LOCAL = "local"
"""Stands for whoever comes in over a Unix socket: the user, whose viewers may be many."""
HEADER_S = 10.0
"""A connection that has not sent a whole header by then is closed."""


class ConnectionLimits:
    """Counts open connections by address. Lives on the server's loop."""

    def __init__(self, *, per_address: int, in_all: int) -> None:
        self.per_address, self.in_all = per_address, in_all
        self.open: Counter[str] = Counter()

    def enter(self, address: str) -> bool:
        """Count a connection; False when there are too many."""
        crowded = address != LOCAL and self.open[address] >= self.per_address
        if crowded or self.open.total() >= self.in_all:
            return False
        self.open[address] += 1
        return True

    def leave(self, address: str) -> None:
        """A counted connection has gone."""
        self.open[address] -= 1
        if self.open[address] <= 0:
            del self.open[address]


def limited_protocol(
    limits: ConnectionLimits, *, header_s: float = HEADER_S
) -> type[asyncio.Protocol]:
    """A protocol class for uvicorn that keeps to `limits` and closes slow headers."""

    class LimitedProtocol(H11Protocol):
        """One connection; the timer runs whenever a header is awaited."""

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self.app_state = {**self.app_state, "midstep_abort": self._abort}
            self._counted: str | None = None
            self._timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            address = str(self.client[0]) if self.client else LOCAL
            if is_foreign(transport.get_extra_info("socket")) or not limits.enter(address):
                transport.abort()
                return
            self._counted = address
            self._await_header()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_timer()
            if self._counted is not None:
                limits.leave(self._counted)
                self._counted = None
            _shut_down(self.transport)
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            # Only a whole header moves the connection on from IDLE; a trickle does not.
            if self.conn.their_state is not h11.IDLE:
                self._stop_timer()
            elif self._timer is None:
                self._await_header()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            if self.conn.their_state is h11.IDLE and self.conn.trailing_data[0]:
                self._await_header()

        def _await_header(self) -> None:
            self._stop_timer()
            self._timer = self.loop.call_later(header_s, self._abort)

        def _stop_timer(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

        def _abort(self) -> None:
            """Close at once, without waiting for a peer that does not read."""
            if self.transport is not None:
                self.transport.abort()

    return LimitedProtocol


def _shut_down(transport: asyncio.Transport) -> None:
    """Tell the peer that it is over: a forked loader worker holds the socket open besides us."""
    held = transport.get_extra_info("socket")
    if held is not None:
        with suppress(OSError):  # it was gone already
            held.shutdown(socket.SHUT_RDWR)

"""The HTTP protocol of the server: uvicorn's h11 protocol with limits that uvicorn lacks.

uvicorn has no timeout for headers and no limit by address, so one program could hold all
connections of the server open, which runs in the process of the training.
"""

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
"""The address of all connections over a Unix socket. Only the user and `midstep serve` connect
there, so the limit per address does not apply: all viewers share this one address."""
HEADER_S = 10.0
"""A connection that has not sent a whole header by then is closed. A real client sends it at once;
one that sends a byte now and then would hold the connection for ever."""


class ConnectionLimits:
    """Counts open connections by address. Used on the event loop only, so it needs no lock."""

    def __init__(self, *, per_address: int, in_all: int) -> None:
        self.per_address, self.in_all = per_address, in_all
        self.open: Counter[str] = Counter()

    def enter(self, address: str) -> bool:
        """Count a new connection. Returns False when there are too many."""
        is_over_limit = address != LOCAL and self.open[address] >= self.per_address
        if is_over_limit or self.open.total() >= self.in_all:
            return False
        self.open[address] += 1
        return True

    def leave(self, address: str) -> None:
        """Count a closed connection."""
        self.open[address] -= 1
        # Deleted at zero: many addresses over time must not fill the counter.
        if self.open[address] <= 0:
            del self.open[address]


def limited_protocol(
    limits: ConnectionLimits, *, header_s: float = HEADER_S
) -> type[asyncio.Protocol]:
    """A protocol class for uvicorn that enforces `limits` and the header timeout."""

    class LimitedProtocol(H11Protocol):
        """One connection. The timer runs while a header is awaited."""

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            # `SseWriter` uses it to close the connection of a viewer that does not read.
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
            # The peer leaves IDLE only with a whole header; single bytes do not stop the timer.
            if self.conn.their_state is not h11.IDLE:
                self._stop_timer()
            elif self._timer is None:
                self._await_header()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            # A pipelined request has arrived in part; no `data_received` may follow for it.
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
            """Close at once. A normal close waits until the peer has read everything."""
            if self.transport is not None:
                self.transport.abort()

    return LimitedProtocol


def _shut_down(transport: asyncio.Transport) -> None:
    """End the connection for the peer too.

    Closing is not enough: a DataLoader worker that was forked meanwhile has a copy of the socket,
    and the peer would wait for that copy to close.
    """
    connection = transport.get_extra_info("socket")
    if connection is not None:
        with suppress(OSError):  # the peer has closed it already
            connection.shutdown(socket.SHUT_RDWR)

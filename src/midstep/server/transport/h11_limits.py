"""The HTTP protocol of the server: uvicorn's h11 protocol with limits that uvicorn lacks.

uvicorn has no timeout for headers and no limit by address, so one program could hold all
connections of the server open, which runs in the process of the training.
"""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from contextlib import suppress
from typing import Any, Protocol

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from midstep.server.transport.unix_peer import is_foreign

LOCAL = "local"
"""The address of all connections over a Unix socket. Only the user and `midstep serve` connect
there, so the limit per address does not apply: all viewers share this one address."""
HEADER_S = 10.0
"""A connection that has not sent a whole header by then is closed. A real client sends it at once;
one that sends a byte now and then would hold the connection for ever."""


class Connection(Protocol):
    """A connection that may be closed to make room for another one."""

    @property
    def is_idle(self) -> bool:
        """Whether no request of it is being answered."""

    def close_now(self) -> None:
        """Close it."""


class ConnectionLimits:
    """Counts open connections by address. Used on the event loop only, so it needs no lock.

    All users of a host share the address 127.0.0.1. Connections without a valid token therefore
    have a quota of their own, in which the oldest makes room for a new one: nobody can lock the
    owner out by holding connections open.

    Args:
        per_address: most connections of one address with a valid token.
        in_all: most connections of all addresses with a valid token.
        without_token: most connections on which no valid token has arrived yet.
    """

    def __init__(self, *, per_address: int, in_all: int, without_token: int = 64) -> None:
        self.per_address, self.in_all, self.without_token = per_address, in_all, without_token
        self.open: Counter[str] = Counter()
        self._unproven: dict[Connection, str] = {}
        """Connections without a valid token, with their address, oldest first."""

    def enter_unproven(self, connection: Connection, address: str) -> None:
        """Count a new connection without a token; close an old one when there are too many."""
        self._unproven[connection] = address
        if len(self._unproven) > self.without_token:
            self._choose_oldest(except_for=connection).close_now()

    def _choose_oldest(self, *, except_for: Connection) -> Connection:
        """The oldest connection of the address that has most; an idle one if there is any."""
        crowded, _ = Counter(self._unproven.values()).most_common(1)[0]
        of_address = [each for each, address in self._unproven.items() if address == crowded]
        others = [each for each in of_address if each is not except_for] or of_address
        return next((each for each in others if each.is_idle), others[0])

    def leave_unproven(self, connection: Connection) -> bool:
        """Count a connection without a token no longer. Returns whether it was counted."""
        return self._unproven.pop(connection, None) is not None

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
            # The guard calls `midstep_keep` when a request had a valid token.
            own = {"midstep_abort": self.close_now, "midstep_keep": self._keep}
            self.app_state = {**self.app_state, **own}
            self._address = LOCAL
            self._counted: str | None = None
            self._timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._address = str(self.client[0]) if self.client else LOCAL
            if is_foreign(transport.get_extra_info("socket")):
                transport.abort()
                return
            if self._address == LOCAL:  # the kernel has confirmed the user id of the owner
                if not limits.enter(LOCAL):
                    transport.abort()
                    return
                self._counted = LOCAL
            else:
                limits.enter_unproven(self, self._address)
            self._await_header()

        @property
        def is_idle(self) -> bool:
            """Whether no request is being answered."""
            return self.cycle is None or self.cycle.response_complete

        def _keep(self) -> None:
            """Count the connection as one with a valid token; close it if there are too many."""
            if limits.leave_unproven(self):
                if limits.enter(self._address):
                    self._counted = self._address
                else:
                    self.close_now()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_timer()
            limits.leave_unproven(self)
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
            self._timer = self.loop.call_later(header_s, self.close_now)

        def _stop_timer(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

        def close_now(self) -> None:
            """Close at once. A normal close waits until the peer has read everything."""
            limits.leave_unproven(self)
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

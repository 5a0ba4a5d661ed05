"""One HTTP request to a run over its Unix socket; the response is read piece by piece.

Written with h11 instead of httpx: the user id of the peer must be checked after connecting and
before the token is sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from typing import NamedTuple

import h11

from midstep.server.transport.unix_peer import is_foreign

BUFFER_BYTES = 64 << 10
"""asyncio stops reading from the socket when twice this much waits. The run then has to wait too,
so a slow viewer does not fill this server's memory."""
CONNECT_S = 5.0
"""A Unix socket connects at once unless the backlog of the run is full."""

Header = tuple[bytes, bytes]


class UpstreamGone(Exception):  # noqa: N818 - not an error: runs end
    """No process answers on the socket, or it ended during its response."""


class Head(NamedTuple):
    """The start of a response."""

    status: int
    headers: list[Header]


class UnixHttpRequest:
    """A connection for one request. Create it with `open`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._protocol = h11.Connection(h11.CLIENT)

    @classmethod
    async def open(cls, path: str) -> UnixHttpRequest:
        """Connect, and check that the listening process belongs to this user."""
        try:
            async with asyncio.timeout(CONNECT_S):
                reader, writer = await asyncio.open_unix_connection(path, limit=BUFFER_BYTES)
        except (OSError, TimeoutError) as error:
            raise UpstreamGone(str(error)) from error
        if is_foreign(writer.get_extra_info("socket")):
            writer.transport.abort()
            raise UpstreamGone("the socket belongs to another user")
        return cls(reader, writer)

    async def send(
        self, method: str, target: bytes, headers: Iterable[Header], body: bytes
    ) -> None:
        """Send the whole request."""
        framing = [(b"connection", b"close"), (b"content-length", b"%d" % len(body))]
        request = h11.Request(method=method, target=target, headers=[*headers, *framing])
        for event in (request, h11.Data(data=body), h11.EndOfMessage()):
            data = self._protocol.send(event)
            if data:
                self._writer.write(data)
        try:
            await self._writer.drain()
        except OSError as error:
            raise UpstreamGone(str(error)) from error

    async def head(self) -> Head:
        """Wait for status and headers."""
        event = await self._next_event()
        while isinstance(event, h11.InformationalResponse):
            event = await self._next_event()
        if not isinstance(event, h11.Response):
            raise UpstreamGone("the run ended before it answered")
        return Head(event.status_code, list(event.headers))

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield the body as it arrives."""
        while True:
            event = await self._next_event()
            if isinstance(event, h11.Data):
                yield bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                return
            else:
                raise UpstreamGone("the run ended during its response")

    async def _next_event(self) -> h11.Event | type[h11.PAUSED]:
        try:
            while (event := self._protocol.next_event()) is h11.NEED_DATA:
                self._protocol.receive_data(await self._reader.read(BUFFER_BYTES))
        except (OSError, h11.RemoteProtocolError) as error:
            raise UpstreamGone(str(error)) from error
        return event  # type: ignore[return-value]

    def close(self) -> None:
        """Close the connection at once, without waiting for data that was not sent yet."""
        with suppress(RuntimeError):  # the loop is closing as well
            self._writer.transport.abort()

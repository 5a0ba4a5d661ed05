"""One request to a run over its Unix socket; the answer comes piece by piece, never as a whole."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from typing import NamedTuple

import h11

from midstep.server.transport.unix_peer import is_foreign

BUFFER_BYTES = 64 << 10
"""Of what has come and was not asked for yet; twice that at most, then the run has to wait."""
CONNECT_S = 5.0

Header = tuple[bytes, bytes]


class UpstreamGone(Exception):  # noqa: N818 - not an error: runs end
    """Nobody answers there, or not to the end."""


class Head(NamedTuple):
    """The beginning of an answer."""

    status: int
    headers: list[Header]


class UnixHttpRequest:
    """A connection for one request. Made by `open`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._protocol = h11.Connection(h11.CLIENT)

    @classmethod
    async def open(cls, path: str) -> UnixHttpRequest:
        """Connect; whoever listens there must be this very user."""
        try:
            async with asyncio.timeout(CONNECT_S):
                reader, writer = await asyncio.open_unix_connection(path, limit=BUFFER_BYTES)
        except (OSError, TimeoutError) as error:
            raise UpstreamGone(str(error)) from error
        if is_foreign(writer.get_extra_info("socket")):
            writer.transport.abort()
            raise UpstreamGone("the socket belongs to somebody else")
        return cls(reader, writer)

    async def send(
        self, method: str, target: bytes, headers: Iterable[Header], body: bytes
    ) -> None:
        """The whole request."""
        made = [*headers, (b"connection", b"close"), (b"content-length", b"%d" % len(body))]
        request = h11.Request(method=method, target=target, headers=made)
        for event in (request, h11.Data(data=body), h11.EndOfMessage()):
            data = self._protocol.send(event)
            if data:
                self._writer.write(data)
        try:
            await self._writer.drain()
        except OSError as error:
            raise UpstreamGone(str(error)) from error

    async def head(self) -> Head:
        """Status and headers, once they come."""
        event = await self._event()
        while isinstance(event, h11.InformationalResponse):
            event = await self._event()
        if not isinstance(event, h11.Response):
            raise UpstreamGone("it ended before it answered")
        return Head(event.status_code, list(event.headers))

    async def pieces(self) -> AsyncIterator[bytes]:
        """The body as it comes."""
        while True:
            event = await self._event()
            if isinstance(event, h11.Data):
                yield bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                return
            else:
                raise UpstreamGone("it ended in the middle of its answer")

    async def _event(self) -> h11.Event | type[h11.PAUSED]:
        try:
            while (event := self._protocol.next_event()) is h11.NEED_DATA:
                self._protocol.receive_data(await self._reader.read(BUFFER_BYTES))
        except (OSError, h11.RemoteProtocolError) as error:
            raise UpstreamGone(str(error)) from error
        return event  # type: ignore[return-value]

    def close(self) -> None:
        """Drop the connection at once."""
        with suppress(RuntimeError):  # the loop is closing as well
            self._writer.transport.abort()

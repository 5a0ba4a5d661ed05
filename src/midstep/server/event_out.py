"""Sending server-sent events with a time limit, so that a stuck socket is noticed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from starlette.types import Receive, Scope, Send

__all__ = ["EVENT_HEADERS", "EventOut", "until_gone"]

EVENT_HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no"}


class EventOut:
    """The way to one viewer.

    Args:
        scope: of its request.
        send: of its request.
        stuck_s: how long one piece may take; then `TimeoutError` is raised.
    """

    def __init__(self, scope: Scope, send: Send, *, stuck_s: float) -> None:
        self._send, self._stuck_s = send, stuck_s
        self.abort = _abort_of(scope)
        """Cuts the connection without waiting for a peer that does not read."""

    async def start(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        """Status and headers."""
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def body(self, data: bytes) -> None:
        """One piece; more will come."""
        message = {"type": "http.response.body", "body": data, "more_body": True}
        async with asyncio.timeout(self._stuck_s):  # wait_for would make a task of each piece
            await self._send(message)

    async def end(self) -> None:
        """Nothing more will come."""
        message = {"type": "http.response.body", "body": b"", "more_body": False}
        async with asyncio.timeout(self._stuck_s):
            await self._send(message)


async def until_gone(receive: Receive) -> None:
    """Return once whoever asked has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass


def _abort_of(scope: Scope) -> Callable[[], None]:
    """How to cut the connection; without our server's protocol there is none to cut."""
    found: Any = scope.get("state", {}).get("midstep_abort")
    return found if callable(found) else lambda: None

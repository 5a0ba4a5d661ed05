"""The server in its own thread, with an orderly shutdown."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import threading
from collections.abc import Sequence
from contextlib import suppress

import uvicorn
from fastapi import FastAPI

from midstep.core.errors import MidstepError
from midstep.server.auth.guard import GuardConfig
from midstep.server.transport.h11_limits import HEADER_S, ConnectionLimits, limited_protocol
from midstep.server.transport.ports import bind

log = logging.getLogger("midstep.server")
START_S = 30.0
"""Time to start on a busy machine; beyond it something is wrong."""
CLOSE_S = 5.0
"""Time for responses that are being sent; after it connections are closed by force."""
KEEP_ALIVE_S = 30
"""An idle connection is closed after this long. A page sends a request each second."""


class ServerThread:
    """Serves an app until it is closed.

    Args:
        app: the result of `create_app`.
        host: address to bind; only this machine by default.
        port: the port to bind; 0 for any free one.
        listening: a bound socket, instead of host and port.
        also: further bound sockets to serve.
        header_s: time in which a connection must send a whole header.
    """

    def __init__(
        self,
        app: FastAPI,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        listening: socket.socket | None = None,
        also: Sequence[socket.socket] = (),
        header_s: float = HEADER_S,
    ) -> None:
        self._app, self._process = app, os.getpid()
        first = listening if listening is not None else bind(host, port)
        self._sockets = [first, *also]
        # Duplicates: uvicorn closes its own, and `_stop_listening` still has to shut them down.
        self._listeners = [each.dup() for each in self._sockets]
        self.url = _url_of(first)
        """The base address, for example `http://127.0.0.1:8765`."""
        self._server = uvicorn.Server(_config(app, header_s))
        self._started = threading.Event()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self) -> str:
        """Start serving. Returns the base address once requests are answered."""
        self._thread = threading.Thread(target=self._serve, name="midstep-server", daemon=True)
        self._thread.start()
        if not self._started.wait(START_S) or not self._server.started:
            self.close()
            raise MidstepError("the server did not start; the log of midstep.server has the reason")
        return self.url

    def _serve(self) -> None:
        server = self._server
        startup = server.startup

        # uvicorn has no callback for the moment from which it accepts connections.
        async def startup_and_set_event(sockets: list[socket.socket] | None = None) -> None:
            await startup(sockets=sockets)
            self._loop = asyncio.get_running_loop()
            self._started.set()

        server.startup = startup_and_set_event  # type: ignore[method-assign]
        try:
            server.run(sockets=self._sockets)
        except Exception:  # nobody joins this thread: `start` and the log report the error
            log.exception("the server ended with an error")
        finally:
            self._started.set()

    def close(self) -> None:
        """End the streams and the thread. Closing twice is allowed."""
        if os.getpid() != self._process:
            return  # a forked child: shutting its copy of a socket down would end the parent's
        self._end_streams()
        self._server.should_exit = True
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.join(CLOSE_S)
            # Closes connections whose peers do not end them.
            self._server.force_exit = True
            thread.join(CLOSE_S)
        self._stop_listening()

    def _stop_listening(self) -> None:
        """Free the port, also when a forked DataLoader worker has a copy of the socket."""
        for listener in self._listeners:
            with suppress(OSError):  # the server has closed it already, or it never listened
                listener.shutdown(socket.SHUT_RDWR)
        for each in (*self._listeners, *self._sockets):
            each.close()

    def _end_streams(self) -> None:
        """End all streams; uvicorn would wait for them, and they never end by themselves."""
        if self._loop is not None and not self._loop.is_closed():
            with suppress(RuntimeError):  # the loop closed between the test and the call
                self._loop.call_soon_threadsafe(self._app.state.run_streams.close)

    def __enter__(self) -> ServerThread:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _url_of(listening: socket.socket) -> str:
    if listening.family == socket.AF_UNIX:
        return f"unix:{listening.getsockname()}"
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _config(app: FastAPI, header_s: float) -> uvicorn.Config:
    guard: GuardConfig = app.state.guard
    limits = ConnectionLimits(
        per_address=guard.max_connections_per_address,
        in_all=guard.max_connections,
        without_token=guard.max_connections_without_token,
    )
    return uvicorn.Config(
        app,
        http=limited_protocol(limits, header_s=header_s),
        ws="none",
        loop="asyncio",
        lifespan="on",
        access_log=False,
        log_config=None,
        log_level="warning",
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=int(CLOSE_S) - 2,
        h11_max_incomplete_event_size=64 * 1024,  # longest header
    )

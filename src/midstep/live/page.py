"""`Page`: port, tokens and server thread of the page of one run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from midstep.core.errors import ConfigError
from midstep.live.run_socket import RunSocket, run_app

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from midstep.server.transport.server_thread import ServerThread
    from midstep.session import Run

LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


class Page:
    """The page of one run. Port and tokens are taken at once, the server starts with `show`.

    So a taken port or a wrong host is refused before a run directory is made.

    Args:
        outputs_root: the folder of the run directory.
        port: if None, the last one used for this folder, else the first free one of a range.
        host: by default only this machine can connect.
        allowed_hosts: exact values of the `Host` header that a server on another host accepts.
    """

    def __init__(
        self,
        outputs_root: str | Path,
        port: int | None,
        *,
        host: str = "127.0.0.1",
        allowed_hosts: Sequence[str] = (),
    ) -> None:
        from midstep.server.auth.tokens import KeptTokens
        from midstep.server.transport.ports import bind_for_root

        if host not in LOOPBACK and not allowed_hosts:
            raise ConfigError(
                f"host {host!r} lets other machines connect; name the addresses that they use in "
                'allowed_hosts, for example ["node7:8765"], or leave the host out'
            )
        self._tokens = KeptTokens(outputs_root)
        self._allowed_hosts = tuple(allowed_hosts)
        self._listening = bind_for_root(outputs_root, host=host, port=port)
        self.port: int = self._listening.getsockname()[1]
        """The port it listens on, which a forwarded address may hide."""
        self.url: str | None = None
        """Address with the control token; None before `show`."""
        self.viewer_url: str | None = None
        """Address with the read-only token."""
        self._run: Run | None = None
        self._socket: RunSocket | None = None
        self._thread: ServerThread | None = None

    def show(self, run: Run) -> None:
        """Serve `run`."""
        from midstep.server.transport.server_thread import ServerThread

        self._socket = RunSocket.bind(run)  # `midstep serve` reaches the same app there
        self._thread = ServerThread(
            run_app(run, self._tokens, self._allowed_hosts),
            listening=self._listening,
            also=() if self._socket is None else (self._socket.listening,),
        )
        base = self._thread.start()
        if self._allowed_hosts:  # a browser on another machine reaches it under this name
            base = f"http://{self._allowed_hosts[0]}"
        self.url = f"{base}/#token={self._tokens.control}"
        self.viewer_url = f"{base}/#token={self._tokens.viewer}"
        self._run, run.page_url = run, self.url
        run.lease.reachable_at(server_url=base)

    def close(self) -> None:
        """Stop serving the run and free the port; closing twice is fine."""
        run, self._run = self._run, None
        # The lease first: clients must not find an address whose server is about to close.
        if run is not None:
            run.page_url = None
            run.lease.reachable_at(server_url=None)
        if self._thread is not None:
            self._thread.close()
        if self._socket is not None:
            self._socket.close()
        self._listening.close()

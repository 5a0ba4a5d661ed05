"""A page for a run: everything that can be refused is found before the run begins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from midstep.core.errors import ConfigError
from midstep.live.run_socket import RunSocket

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from midstep.server.transport.server_thread import ServerThread
    from midstep.session import Run

__all__ = ["Page"]

LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


class Page:
    """A port that is taken and tokens that are kept; then the page of a run.

    Args:
        outputs_root: where the run will be, or is.
        port: the last one used for this place when None, else the first free of a range.
        host: only this machine can connect by default.
        allowed_hosts: exact `Host` values under which a wider bind answers.
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
                f"host {host!r} lets other machines in; say under which names with allowed_hosts, "
                'for example ["node7:8765"], or leave the host out'
            )
        self._tokens = KeptTokens(outputs_root)
        self._allowed_hosts = tuple(allowed_hosts)
        self._listening = bind_for_root(outputs_root, host=host, port=port)
        self.port: int = self._listening.getsockname()[1]
        """The one it listens on, also behind a forwarded address."""
        self.url: str | None = None
        """With the token that controls; once it is shown."""
        self.viewer_url: str | None = None
        """With the token that only looks."""
        self._run: Run | None = None
        self._socket: RunSocket | None = None
        self._thread: ServerThread | None = None

    def show(self, run: Run) -> None:
        """Put `run` on it."""
        from midstep.server.app import create_app
        from midstep.server.auth.guard import GuardConfig
        from midstep.server.runs.run_table import RunTable
        from midstep.server.transport.server_thread import ServerThread

        runs = RunTable()
        runs.add(run)
        guard = GuardConfig(tokens=self._tokens, allowed_hosts=self._allowed_hosts)
        self._socket = RunSocket.bind(run)  # the same app for `midstep serve`
        self._thread = ServerThread(
            create_app(runs, guard=guard),
            listening=self._listening,
            also=() if self._socket is None else (self._socket.listening,),
        )
        base = self._thread.start()
        if self._allowed_hosts:
            base = f"http://{self._allowed_hosts[0]}"
        self.url = f"{base}/#token={self._tokens.control}"
        self.viewer_url = f"{base}/#token={self._tokens.viewer}"
        self._run, run.page_url = run, self.url
        run.lease.reachable_at(server_url=base)

    def close(self) -> None:
        """Take the run off the page and free the port; closing twice is fine."""
        run, self._run = self._run, None
        if run is not None:
            run.page_url = None
            run.lease.reachable_at(server_url=None)
        if self._thread is not None:
            self._thread.close()
        if self._socket is not None:
            self._socket.close()
        self._listening.close()

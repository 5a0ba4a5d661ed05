"""`serve`: any run on the page, from inside its own process."""

from __future__ import annotations

import webbrowser
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from midstep.control import DebugController
from midstep.core.errors import ConfigError
from midstep.session import Run

if TYPE_CHECKING:
    import socket
    from collections.abc import Sequence
    from pathlib import Path
    from types import TracebackType

__all__ = ["ServedRun", "listen", "serve"]

LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


def serve(
    target: Any,
    port: int | None = None,
    *,
    host: str = "127.0.0.1",
    name: str | None = None,
    save_dir: str | Path = "outputs/runs",
    open_browser: bool = False,
    allowed_hosts: Sequence[str] = (),
) -> ServedRun:
    """Put a session, a run or a bare controller on the page, until the block ends.

    Args:
        target: what to serve; a bare controller gets a run of its own, with facts.
        port: the last one used for this place when left out, else the first free of a range.
        host: only this machine can connect by default.
        name: of the run that a bare controller gets.
        save_dir: where that run's directory is made.
        open_browser: open the page in the user's browser.
        allowed_hosts: exact `Host` values under which a wider bind answers, such as `node7:8765`.

    >>> import tempfile
    >>> with serve(DebugController(), port=0, save_dir=tempfile.mkdtemp()) as page:
    ...     page.url.startswith("http://127.0.0.1:")
    True
    """
    run = _run_of(target)
    listening = listen(save_dir if run is None else run.dir.parent, host, port, allowed_hosts)
    with ExitStack() as undo:
        undo.callback(listening.close)
        own = None
        if run is None:
            run = own = Run(name=name or "run", save_dir=save_dir, controller=target)
            undo.callback(own.close)
        served = ServedRun(run, listening, own=own, allowed_hosts=allowed_hosts)
        undo.pop_all()
    if open_browser:
        webbrowser.open(served.url)
    return served


class ServedRun:
    """A run on the page: its address, and how to end it. Made by `serve`."""

    def __init__(
        self,
        run: Run,
        listening: socket.socket,
        *,
        own: Run | None = None,
        allowed_hosts: Sequence[str] = (),
    ) -> None:
        from midstep.server.app import create_app
        from midstep.server.guard import GuardConfig
        from midstep.server.run_table import RunTable
        from midstep.server.thread import ServerThread
        from midstep.server.tokens import Tokens

        self.run, self._own = run, own
        self.port: int = listening.getsockname()[1]
        """The one it listens on, also behind a forwarded address."""
        tokens = Tokens.for_root(run.dir.parent)
        runs = RunTable()
        runs.add(run)
        guard = GuardConfig(tokens=tokens, allowed_hosts=tuple(allowed_hosts))
        self._thread = ServerThread(create_app(runs, guard=guard), listening=listening)
        base = self._thread.start()
        if allowed_hosts:
            base = f"http://{allowed_hosts[0]}"
        self.url = f"{base}/#token={tokens.control}"
        """The page, with the token that controls."""
        self.viewer_url = f"{base}/#token={tokens.viewer}"
        """The page, with the token that only looks."""
        run.reachable = True
        run.lease.reachable_at(server_url=base)

    @property
    def controller(self) -> DebugController:
        """The controller of the served run."""
        return self.run.controller

    def close(self) -> None:
        """Take it off the page; a run made for a bare controller ends with it."""
        with ExitStack() as undo:
            if self._own is not None:
                undo.callback(self._own.close)
            undo.callback(self._thread.close)
            if self._own is not None:
                self._own.finish()  # before the server goes, so that the page learns of it
            self.run.reachable = False
            self.run.lease.reachable_at(server_url=None)

    def __enter__(self) -> ServedRun:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if error is not None:
                self.run.fail(error)  # while the page is still there to look at it
        finally:
            self.close()


def listen(
    outputs_root: str | Path, host: str, port: int | None, allowed_hosts: Sequence[str] = ()
) -> socket.socket:
    """A bound socket; a taken port is refused before anything is written."""
    from midstep.server.ports import bind_for_root

    if host not in LOOPBACK and not allowed_hosts:
        raise ConfigError(
            f"host {host!r} lets other machines in; say under which names with allowed_hosts, "
            'for example ["node7:8765"], or leave the host out'
        )
    return bind_for_root(outputs_root, host=host, port=port)


def _run_of(target: Any) -> Run | None:
    """The run behind a session or an attached loop; None for a bare controller."""
    if isinstance(target, DebugController):
        return None
    run = target if isinstance(target, Run) else getattr(target, "run", None)
    if isinstance(run, Run):
        return run
    raise ConfigError(
        f"serve takes a session, a run or a DebugController, got {type(target).__name__}"
    )

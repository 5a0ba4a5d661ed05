"""`serve`: shows any run on a page, from inside the process of the run."""

from __future__ import annotations

import webbrowser
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from midstep.control import DebugController
from midstep.core.errors import ConfigError
from midstep.live.attached_run import AttachedRun
from midstep.live.mode import current_mode
from midstep.live.notebook.run_display import mime_bundle, open_in_browser
from midstep.live.page import Page
from midstep.session import Run
from midstep.session.signals import GracefulStop, stop_at_signals


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
    """Serve the page of a session, a run or a bare controller, until the block ends.

    Inside a `with` block in the main thread, SIGTERM and SIGHUP stop the loop at its next boundary,
    and the block then ends the process with exit code 0. A second signal ends it at once.

    MIDSTEP_MODE applies: with `record` no page is served, with `off` a controller gets no run.

    Args:
        target: what to serve; a bare controller gets a new run with facts.
        port: if left out, the last one used for this folder, else the first free one of a range.
        host: by default only this machine can connect.
        name: of the run that a bare controller gets.
        save_dir: where that run's directory is made.
        open_browser: open the page in the user's browser.
        allowed_hosts: exact values of the `Host` header that a server on another host accepts,
            such as `node7:8765`.

    >>> import tempfile
    >>> with serve(DebugController(), port=0, save_dir=tempfile.mkdtemp()) as page:
    ...     page.url.startswith("http://127.0.0.1:")
    True
    """
    controller, mode = _controller_of(target), current_mode()
    if mode == "off":
        return ServedRun(controller)
    run = _run_of(target)
    with ExitStack() as undo:
        page = new_run = None
        if mode == "live":
            root = save_dir if run is None else run.dir.parent
            page = Page(root, port, host=host, allowed_hosts=allowed_hosts)
            undo.callback(page.close)
        if run is None:
            run = new_run = Run(name=name or "run", save_dir=save_dir, controller=controller)
            undo.callback(new_run.close)
        if page is not None:
            page.show(run)
        undo.pop_all()  # all is open; from here on `ServedRun.close` undoes it
    served = ServedRun(controller, run=run, page=page, new_run=new_run)
    if open_browser and served.url is not None:
        webbrowser.open(served.url)
    return served


class ServedRun:
    """A served run: the addresses of its page, and `close`. Made by `serve`."""

    def __init__(
        self,
        controller: DebugController,
        *,
        run: Run | None = None,
        page: Page | None = None,
        new_run: Run | None = None,
    ) -> None:
        self.controller = controller
        """The controller of the served run."""
        self._run, self._page, self._new_run = run, page, new_run
        self._signals: GracefulStop | None = None
        self._block = ExitStack()
        self.port = None if page is None else page.port
        """The port it listens on, which a forwarded address may hide; None without a page."""
        self.url = None if page is None else page.url
        """The page with the control token; None without a page."""
        self.viewer_url = None if page is None else page.viewer_url
        """The page with the read-only token; None without a page."""

    @property
    def run(self) -> Run:
        """The served run: directory, facts, lease.

        Raises:
            ConfigError: MIDSTEP_MODE is off.
        """
        if self._run is None:
            raise ConfigError("there is no run: MIDSTEP_MODE is off; unset it to have one")
        return self._run

    def open_page(self) -> None:
        """Open the page in the browser of this machine; for a notebook, which stores every link."""
        open_in_browser(self.url)

    def _repr_mimebundle_(self, **_wanted: Any) -> dict[str, str]:
        """How a notebook displays the run."""
        directory = None if self._run is None else self._run.dir
        name = "run" if directory is None else directory.name
        state = self.controller.get_state()
        return mime_bundle(state, name=name, directory=directory, url=self.url)

    def close(self) -> None:
        """Stop serving. A run that was made for a bare controller ends, too."""
        if self._run is not None and self._run.is_in_fork:
            return  # page and sockets belong to the parent
        with ExitStack() as undo:
            if self._new_run is not None:
                undo.callback(self._new_run.close)
            if self._page is not None:
                undo.callback(self._page.close)
            if self._new_run is not None:
                self._new_run.finish()  # before the server ends, so that the page shows it

    def __enter__(self) -> ServedRun:
        if self._run is not None:
            signals = stop_at_signals(self.controller, self._run.note_stop)
            self._signals = self._block.enter_context(signals)
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        signals = self._signals
        if self._run is not None and self._run.is_in_fork:
            return
        with self._block:
            try:
                if error is not None and self._run is not None:
                    # Before the page closes: a viewer may inspect the run while it is parked here.
                    self._run.fail(error if signals is None else signals.as_stop(error))
            finally:
                self.close()
        if signals is not None and signals.caused(error):
            raise SystemExit(0 if self._run is None else self._run.exit_code)


def _controller_of(target: Any) -> DebugController:
    """The controller of a target that can be served."""
    controller = getattr(target, "controller", target)
    if isinstance(controller, DebugController):
        return controller
    raise ConfigError(
        f"serve takes a session, a run or a DebugController, got {type(target).__name__}"
    )


def _run_of(target: Any) -> Run | None:
    """The run of a session or an attached loop; None for a bare controller."""
    if isinstance(target, DebugController):
        return None
    run = target if isinstance(target, Run) else getattr(target, "run", None)
    if isinstance(run, Run):
        return run
    if isinstance(target, AttachedRun):
        return target.opened_run()
    raise ConfigError(f"serve needs a run, and a {type(target).__name__} has none")

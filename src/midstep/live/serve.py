"""`serve`: any run on the page, from inside its own process."""

from __future__ import annotations

import webbrowser
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from midstep.control import DebugController
from midstep.core.errors import ConfigError, StopTraining
from midstep.live.attached_run import AttachedRun
from midstep.live.mode import current_mode
from midstep.live.page import Page
from midstep.session import Run
from midstep.session.signals import GracefulStop, stop_at_signals

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from types import TracebackType

__all__ = ["ServedRun", "serve"]


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

    Inside a `with` block in the main thread SIGTERM and SIGHUP stop the loop at its next boundary,
    and the block then ends the process with 0; a second one ends it at once.

    MIDSTEP_MODE is obeyed: `record` serves no page, `off` makes no run for a controller either.

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
    controller, mode = _controller_of(target), current_mode()
    if mode == "off":
        return ServedRun(controller)
    run = _run_of(target)
    with ExitStack() as undo:
        page = own = None
        if mode == "live":
            root = save_dir if run is None else run.dir.parent
            page = Page(root, port, host=host, allowed_hosts=allowed_hosts)
            undo.callback(page.close)
        if run is None:
            run = own = Run(name=name or "run", save_dir=save_dir, controller=controller)
            undo.callback(own.close)
        if page is not None:
            page.show(run)
        undo.pop_all()
    served = ServedRun(controller, run=run, page=page, own=own)
    if open_browser and served.url is not None:
        webbrowser.open(served.url)
    return served


class ServedRun:
    """A run on the page: its address, and how to end it. Made by `serve`."""

    def __init__(
        self,
        controller: DebugController,
        *,
        run: Run | None = None,
        page: Page | None = None,
        own: Run | None = None,
    ) -> None:
        self.controller = controller
        """The controller of the served run."""
        self._run, self._page, self._own = run, page, own
        self._signals: GracefulStop | None = None
        self._inside = ExitStack()
        self.port = None if page is None else page.port
        """The one it listens on, also behind a forwarded address; None without a page."""
        self.url = None if page is None else page.url
        """The page, with the token that controls; None without one."""
        self.viewer_url = None if page is None else page.viewer_url
        """The page, with the token that only looks; None without one."""

    @property
    def run(self) -> Run:
        """The run behind it: directory, facts, lease. Not there when switched off."""
        if self._run is None:
            raise ConfigError("there is no run: MIDSTEP_MODE is off")
        return self._run

    def close(self) -> None:
        """Take it off the page; a run made for a bare controller ends with it."""
        with ExitStack() as undo:
            if self._own is not None:
                undo.callback(self._own.close)
            if self._page is not None:
                undo.callback(self._page.close)
            if self._own is not None:
                self._own.finish()  # before the server goes, so that the page learns of it

    def __enter__(self) -> ServedRun:
        if self._run is not None:
            signals = stop_at_signals(self.controller, self._note_stop)
            self._signals = self._inside.enter_context(signals)
        return self

    def _note_stop(self, cause: str) -> None:
        self.run.stop_reason = cause

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        stopped = StopTraining("stopped by a signal")
        with self._inside:
            try:
                if error is not None and self._run is not None:
                    # while the page is still there to look at it
                    self._run.fail(stopped if self._is_signalled(error) else error)
            finally:
                self.close()
        if self._is_signalled(error):
            raise SystemExit(0)

    def _is_signalled(self, error: BaseException | None) -> bool:
        return self._signals is not None and self._signals.caused(error)


def _controller_of(target: Any) -> DebugController:
    """The controller of whatever can be served."""
    found = target if isinstance(target, DebugController) else getattr(target, "controller", None)
    if isinstance(found, DebugController):
        return found
    raise ConfigError(
        f"serve takes a session, a run or a DebugController, got {type(target).__name__}"
    )


def _run_of(target: Any) -> Run | None:
    """The run behind a session or an attached loop; None for a bare controller."""
    if isinstance(target, DebugController):
        return None
    run = target if isinstance(target, Run) else getattr(target, "run", None)
    if isinstance(run, Run):
        return run
    if isinstance(target, AttachedRun):
        return target.opened_run()
    raise ConfigError(f"serve takes something with a run, got {type(target).__name__}")

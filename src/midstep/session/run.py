"""A run: the one object that opens a run directory for writing.

It holds the directory, the lease, the facts writer and the controller together: what the controller
sees goes to the facts, and a disk that refuses parks the loop.
"""

from __future__ import annotations

import logging
import sys
import time
import traceback
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from midstep.control import DebugController
from midstep.core.errors import ConfigError, StopTraining, StorageError
from midstep.core.files.storage import make_folder, replace_json
from midstep.core.moments import Moment
from midstep.facts import FactsWriter, Lease, LoopProgress
from midstep.session.run_directory import Existing, find_attempt, new_directory, open_directory
from midstep.session.run_header import device_of, process_info
from midstep.session.sigchld_guard import sigchld_ignored
from midstep.session.step_report import as_scalars, earlier_commands

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

    from midstep.session.hooks import Hook
    from midstep.session.hooks.hook_manager import HookManager


OnError = Literal["park", "raise"]


def at_terminal() -> bool:
    """Whether somebody may sit there."""
    return sys.stdin is not None and not sys.stdin.closed and sys.stdin.isatty()


def print_parked_error(error: BaseException, page_url: str | None) -> None:
    """The traceback first, then in one line what the run waits for and how to release it.

    Args:
        error: what the training raised.
        page_url: where the run can be looked at; None when it is not served.
    """
    traceback.print_exception(error)
    if page_url is None:
        where, release = "", "controller.resume()"
    else:
        where, release = f" at {page_url}", "`midstep ctl resume` or `midstep ctl stop`"
    sys.stderr.write(
        f"midstep: the run stands at this error to be looked at{where}; {release} or Ctrl-C "
        'lets it end, and with on_error="raise" it does not wait\n'
    )
    sys.stderr.flush()


log = logging.getLogger("midstep.session")


class Run:
    """One run: its directory, lease, facts and controller. A context manager.

    Args:
        name: what the user calls it; part of the directory's name.
        save_dir: where run directories are made.
        run_name: exactly `save_dir/run_name` instead of a name with the time.
        run_id: drawn here unless whoever started the run drew it before.
        run_dir: the directory itself, where it was allocated before.
        config: settings, for the header record.
        seed: for the header record; nothing is seeded here.
        controller: the loop's controller; a new one when left out.
        total_steps: for the progress shown.
        model: its named parameters and buffers become sources for watches.
        command: argv, for the header record; this process's own when left out.
        data_fingerprint: what tells the training data from other data, for the header record.
        on_error: `park` stands still with the traceback when the block raises, `raise` does not.
            Left out: park when somebody watches, or can reach the run from this terminal.
        existing: `refuse` a directory that holds a run already, or `continue` that as a further
            attempt.

    >>> import tempfile
    >>> with Run(name="demo", save_dir=tempfile.mkdtemp()) as run:
    ...     run.log(loss=0.5)
    ...     run.controller.wait_if_paused()
    True
    """

    def __init__(
        self,
        *,
        name: str,
        save_dir: str | Path = "outputs/runs",
        run_name: str | None = None,
        run_id: str | None = None,
        run_dir: str | Path | None = None,
        config: Mapping[str, Any] | None = None,
        seed: int | None = None,
        controller: DebugController | None = None,
        total_steps: int | None = None,
        model: Any = None,
        command: Sequence[str] | None = None,
        data_fingerprint: Mapping[str, Any] | None = None,
        on_error: OnError | None = None,
        existing: Existing = "refuse",
    ) -> None:
        now = datetime.now(UTC)
        self.name, self.on_error, self.started_at = name, on_error, now.timestamp()
        self._began = time.monotonic()
        self.dir = (
            new_directory(Path(save_dir), name, run_name, now)
            if run_dir is None
            else open_directory(Path(run_dir))
        ).absolute()
        self.run_id, self.attempt = find_attempt(self.dir, run_id, existing)
        self.controller = controller if controller is not None else DebugController()
        self.page_url: str | None = None
        """Where somebody could look at it, and let it go on; set while it is served."""
        self.ended = False
        """Whether its end is on record, or it was closed without one."""
        self.status: str | None = None
        """How it ended, once that is on record: finished, stopped or failed."""
        self.stop_reason: str | None = None
        """Why it was stopped, where that is known: a signal, Ctrl-C. For the end record."""
        self._board: HookManager | None = None
        with ExitStack() as undo:
            self._open(undo)
            self._write_header(
                config=dict(config or {}),
                seed=seed,
                device=device_of(model),
                data_fingerprint=None if data_fingerprint is None else dict(data_fingerprint),
                **({} if total_steps is None else {"total_steps": total_steps}),
                **process_info(command, Path.cwd()),
            )
            self._introduce(total_steps, model)
            self._undo = undo.pop_all()

    def _open(self, undo: ExitStack) -> None:
        """Lease, facts and the way from the controller to them; undone in reverse order."""
        self.lease = Lease.acquire(self.dir, self.run_id, self.attempt)
        undo.callback(self.lease.release)
        self.facts = FactsWriter(
            self.dir, run_id=self.run_id, attempt=self.attempt, on_fault=self._hold
        )
        undo.callback(self.facts.close)
        self.controller.sinks.add(self.facts)
        undo.callback(self.controller.sinks.remove, self.facts)
        self.controller.clear_trajectories()  # those of an earlier run are in its own directory
        undo.callback(self._keep_trajectories)
        self.lease.report_progress(self._progress)
        undo.callback(self._clear_board)

    def _progress(self) -> LoopProgress:
        """What the heartbeat tells of the loop."""
        control = self.controller
        return LoopProgress(
            step=control.boundary.finished_steps,
            boundaries=control.boundary.boundaries,
            moving=control.status.is_moving and not self.ended,
            state=control.status.state_name,
            about=control.status.progress,
        )

    def _write_header(self, **fields: Any) -> None:
        self.facts.event(Moment.START, name=self.name, **fields)

    def _introduce(self, total_steps: int | None, model: Any) -> None:
        """Tell the controller what there is to show, and what was answered before."""
        if self.attempt > 1:
            self.controller.queue.load_history(earlier_commands(self.dir))
        if total_steps is not None:
            self.controller.status.describe(total_steps=total_steps)
        if model is None:
            return
        for names, read in (
            (model.named_parameters(), model.get_parameter),
            (model.named_buffers(), model.get_buffer),
        ):
            for name, tensor in names:
                if tensor.dim() > 0:  # a watch follows a row, and a single number has none
                    self.controller.watches.add_source(name, partial(read, name))

    def _keep_trajectories(self) -> None:
        """What was watched stays with the run, as `artifacts/trajectories.json`."""
        kept = self.controller.watches.export()
        if not (kept["trajectories"] or kept["others"]):
            return
        try:
            replace_json(make_folder(self.dir / "artifacts") / "trajectories.json", kept)
        except StorageError as error:  # the run is over, and its facts are the truth
            log.warning("%s", error)

    def _hold(self, reason: str) -> None:
        """The disk refused: stand at the next boundary until the facts can be written again."""
        self.controller.boundary.hold(reason, self.facts.retry)

    @property
    def step(self) -> int:
        """Finished optimizer steps."""
        return self.controller.boundary.finished_steps

    def log(self, **scalars: Any) -> None:
        """Scalars of the step in progress: for charts, breakpoints and the facts."""
        self.controller.boundary.log(as_scalars(scalars))

    def log_finished(self, **scalars: Any) -> None:
        """Scalars of what is already finished, such as a validation between two epochs."""
        values = as_scalars(scalars)
        self.facts.log_values(self.step, values)
        self.controller.boundary.log_outside_step(values)

    # -- hooks ------------------------------------------------------------------------------------

    def show(self, *hooks: Hook, model: Any = None, optimizer: Any = None) -> None:
        """Look inside the model with these hooks while somebody watches, and measure for rules.

        Args:
            *hooks: each with a key of its own; one of the same key is replaced.
            model: the module in training. Needed once; `attach` and `Session` know theirs.
            optimizer: its steps are the moments at which gradients and updates are read.
        """
        if self._board is None or model is not None:
            if model is None or optimizer is None:
                raise ConfigError(
                    "this run does not know its model yet: run.show(…, model=…, optimizer=…)"
                )
            self._put_board(model, optimizer)
        if self._board is not None:
            for hook in hooks:
                self._board.add(hook)

    def hide(self, key: str) -> None:
        """Show the hook of that key no more; the model is left as it was."""
        if self._board is not None:
            self._board.remove(key)

    def _put_board(self, model: Any, optimizer: Any) -> None:
        """One board a run: hooks that are shown already go on, on this model."""
        from midstep.session.hooks.hook_manager import HookManager

        if self._board is not None and self._board.model is model:
            return
        shown = [] if self._board is None else self._board.hooks
        self._clear_board()
        self._board = HookManager(self.controller, model, optimizer, self._hook_off)
        for hook in shown:
            self._board.add(hook)

    def _clear_board(self) -> None:
        board, self._board = self._board, None
        if board is not None:
            board.close()

    def _hook_off(self, key: str, why: str) -> None:
        """A hook raised and was switched off: that is a fact of this run."""
        self.event(
            Moment.INTERVENTION, who="system", kind="hook_off", hook=key, why=why, step=self.step
        )

    def event(self, moment: Moment, **fields: Any) -> int:
        """Write a record that is worth keeping; gives back its sequence number."""
        return self.facts.event(moment, **fields)

    def finish(self, status: str = "finished", **fields: Any) -> None:
        """The training is over; a second call changes nothing."""
        if self.ended:
            return
        self.ended = True
        self.controller.boundary.finish()
        if status == "finished" and self.controller.get_state()["stopped"]:
            status = "stopped"
        if status == "stopped" and self.stop_reason is not None:
            fields = {"reason": self.stop_reason, **fields}
        self.status = status
        self.facts.event(Moment.TRAIN_END, status=status, **self._totals(), **fields)

    def fail(self, error: BaseException) -> None:
        """Record what the training raised, and stand there if somebody may want to look.

        The caller raises the error again. A stop is no failure, and neither is Ctrl-C; a second
        call changes nothing.
        """
        if isinstance(error, KeyboardInterrupt) and not self.ended:
            self.stop_reason = "KeyboardInterrupt"
            self.controller.stop()  # so that the state says stopped, too
            self.finish("stopped")
        if isinstance(error, StopTraining) or (isinstance(error, SystemExit) and not error.code):
            self.finish("stopped")
        if self.ended:
            return
        with sigchld_ignored():
            reason = self._record_failure(error)
        park = isinstance(error, Exception) and self._parks()
        # Ctrl-C while it stands lets the training end as it would have: with its own error.
        with suppress(KeyboardInterrupt):
            if park:
                print_parked_error(error, self.page_url)
            self.controller.boundary.fail(reason, park=park)

    def _record_failure(self, error: BaseException) -> str:
        """The record of an error; gives back its reason in words."""
        self.ended, self.status = True, "failed"
        reason = "".join(traceback.format_exception_only(error)).strip()
        self.facts.event(
            Moment.EXCEPTION,
            error=reason,
            error_type=type(error).__qualname__,
            traceback="".join(traceback.format_exception(error)),
            **self._totals(),
        )
        return reason

    def _totals(self) -> dict[str, Any]:
        return {
            "step": self.step,
            "total_time_s": time.monotonic() - self._began,
        }

    def _parks(self) -> bool:
        """Whether an error parks: as asked for, else when somebody is there to look."""
        if self.on_error is not None:
            return self.on_error == "park"
        # A terminal alone could not let the run go on; it needs a server to be reached by.
        return self.controller.captures.viewers > 0 or (self.page_url is not None and at_terminal())

    def close(self) -> None:
        """Give the directory back: sink, facts, lease; closing twice is fine."""
        self.ended = True
        self._undo.close()

    def __enter__(self) -> Run:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if error is None:
                self.finish()
            else:
                self.fail(error)
        finally:
            self.close()

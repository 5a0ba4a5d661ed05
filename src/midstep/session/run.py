"""`Run`: the one object that opens a run directory for writing.

It connects the directory, the lease, the facts writer and the controller: the facts receive what
the controller reports, and the loop parks if the disk refuses a write.
"""

from __future__ import annotations

import logging
import os
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
from midstep.core.files.storage import make_subfolder, replace_json
from midstep.core.moments import Moment
from midstep.core.standard_streams import open_missing_standard_streams, write_to_stderr
from midstep.facts import FactsWriter, Lease, LoopProgress
from midstep.session.evidence.console_capture import ConsoleCapture, is_console_on
from midstep.session.evidence.stop_recorder import Layers, StopRecorder
from midstep.session.late_parameters import is_uninitialized
from midstep.session.ranks import park_limit
from midstep.session.run_directory import Existing, find_attempt, new_directory, open_directory
from midstep.session.run_header import device_of, mask_secrets, process_info
from midstep.session.sigchld_guard import sigchld_ignored
from midstep.session.step_report import earlier_commands, own_values

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from midstep.session.diagnosis.diagnoser import Diagnoser, TrainingAccess
    from midstep.session.hooks import Hook
    from midstep.session.hooks.hook_manager import HookManager


OnError = Literal["park", "raise"]


def _is_at_terminal() -> bool:
    """Whether a user may be at this process's terminal."""
    return sys.stdin is not None and not sys.stdin.closed and sys.stdin.isatty()


def print_parked_error(error: BaseException, page_url: str | None) -> None:
    """Print the traceback, then one line that says how to release the parked run.

    Args:
        error: raised by the training.
        page_url: the page of the run; None if it is not served.
    """
    trace = "".join(traceback.format_exception(error))
    if page_url is None:
        where, release = "", "controller.resume()"
    else:
        where, release = f" at {page_url}", "`midstep ctl resume` or `midstep ctl stop`"
    write_to_stderr(
        f"{trace}midstep: the run is parked at this error, so that you can inspect it{where}; "
        f'{release} or Ctrl-C ends it. With on_error="raise" a run ends without waiting\n'
    )


log = logging.getLogger("midstep.session")


class Run:
    """One run: its directory, lease, facts and controller. A context manager.

    Args:
        name: given by the user; part of the directory's name.
        save_dir: where run directories are made.
        run_name: use exactly `save_dir/run_name` instead of a name with the time.
        run_id: a new one if left out; a launcher may have chosen it before.
        run_dir: the directory itself, if a launcher made it before.
        config: settings, for the header record.
        seed: for the header record; nothing is seeded here.
        controller: the loop's controller; a new one if left out.
        total_steps: for the progress shown.
        model: its named parameters and buffers become sources for watches.
        command: argv, for the header record; that of this process if left out.
        data_fingerprint: identifies the training data, for the header record.
        on_error: `park` keeps the run parked with its traceback when the block raises, `raise` does
            not. If left out, it parks if a viewer is connected, or if it is served from a terminal.
        existing: `refuse` a directory that already has a run, or `continue` it as the next
            attempt.
        console: keep what this process prints, in a file of the run directory; a capture that has
            begun before, or True or False. MIDSTEP_CONSOLE=off switches it off.
        evidence: keep samples, and what hooks captured, of stops and of the end. If False, layers,
            breakpoints and watches of stops are kept without them.

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
        console: bool | ConsoleCapture = True,
        evidence: bool = True,
    ) -> None:
        keeps_console = is_console_on(bool(console))
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
        """The page of the run, where a viewer can also release it; set while it is served."""
        self.ended = False
        """Whether its end is recorded, or it was closed without one."""
        self.status: str | None = None
        """How it ended, once that is recorded: finished, stopped or failed."""
        self.stop_reason: str | None = None
        """Why it was stopped, if that is known: a signal, Ctrl-C. For the end record."""
        self.unsaved: str | None = None
        """What was promised at a stop and is not on disk, in words; the exit code is not 0 then."""
        self.console: ConsoleCapture | None = None
        """Keeps what this process prints; None if that is off."""
        if keeps_console:
            self.console = console if isinstance(console, ConsoleCapture) else ConsoleCapture()
        self._keeps_samples = evidence
        self._hook_manager: HookManager | None = None
        self.diagnoser: Diagnoser | None = None
        """Says where a stop came from; None before the model is known."""
        self._access: TrainingAccess | None = None
        self._process = os.getpid()
        open_missing_standard_streams()
        with ExitStack() as undo:
            self._open(undo)
            self.facts.event(
                Moment.START,
                name=self.name,
                config=mask_secrets(dict(config or {})),
                seed=seed,
                device=device_of(model),
                data_fingerprint=None if data_fingerprint is None else dict(data_fingerprint),
                **({} if total_steps is None else {"total_steps": total_steps}),
                **process_info(command, Path.cwd()),
            )
            self._describe(total_steps, model)
            self._undo = undo.pop_all()

    def _open(self, undo: ExitStack) -> None:
        """Open the lease and the facts, and connect the controller; undone in reverse order."""
        # The lease first: a second writer must be refused before it opens the facts.
        self.lease = Lease.acquire(self.dir, self.run_id, self.attempt)
        undo.callback(self.lease.release)
        if self.console is not None:
            undo.callback(self.console.close)
            self.console.open(self.dir)
        self.facts = FactsWriter(
            self.dir, run_id=self.run_id, attempt=self.attempt, on_fault=self._park_until_written
        )
        undo.callback(self.facts.close)
        self.stops = StopRecorder(
            self.dir,
            self.controller,
            self.facts,
            console=self.console,
            measure_layers=self._measure_layers,
            attempt=self.attempt,
            keeps_samples=self._keeps_samples,
        )
        undo.callback(self.stops.close)
        self.controller.sinks.add(self.facts)
        undo.callback(self.controller.sinks.remove, self.facts)
        self.controller.boundary.limit_park(park_limit)
        self.controller.clear_trajectories()  # those of an earlier run are in its own directory
        undo.callback(self._save_trajectories)
        self.lease.report_progress(self._progress)
        undo.callback(self._close_hooks)

    def _progress(self) -> LoopProgress:
        """How far the loop is. The heartbeat's thread calls this, so the loop records nothing."""
        control = self.controller
        return LoopProgress(
            step=control.boundary.finished_steps,
            boundaries=control.boundary.boundaries,
            moving=control.status.boundary_is_due and not self.ended,
            state=control.status.state_name,
            about=control.status.progress,
        )

    def _describe(self, total_steps: int | None, model: Any) -> None:
        """Give the controller what it can show, and the commands of earlier attempts."""
        if self.attempt > 1:  # a client may retry a command of an attempt that was killed
            self.controller.queue.load_history(earlier_commands(self.dir))
        if total_steps is not None:
            self.controller.status.describe(total_steps=total_steps)
        if model is not None:
            self.offer_tensors(model)

    def offer_tensors(self, model: Any) -> None:
        """Offer the parameters and buffers of a model for watches, except scalars and lazy ones."""
        for names, read in (
            (model.named_parameters(), model.get_parameter),
            (model.named_buffers(), model.get_buffer),
        ):
            for name, tensor in names:
                # A watch is on a row; a scalar has no rows. The tensor is read by name each time,
                # because user code may replace a parameter.
                if not is_uninitialized(tensor) and tensor.dim() > 0:
                    self.controller.watches.add_source(name, partial(read, name))

    def _save_trajectories(self) -> None:
        """Save the watched rows with the run, as `artifacts/trajectories.json`."""
        trajectories = self.controller.watches.export()
        if not (trajectories["trajectories"] or trajectories["others"]):
            return
        try:
            replace_json(make_subfolder(self.dir, "artifacts") / "trajectories.json", trajectories)
        except StorageError as error:  # the run is over and its facts are complete
            log.warning("%s", error)

    def _park_until_written(self, reason: str) -> None:
        """The disk refused: park at the next boundary until the facts can be written again."""
        self.controller.boundary.hold(reason, self.facts.retry)

    @property
    def is_in_fork(self) -> bool:
        """Whether this process was forked from the one that opened the run, which owns it."""
        return os.getpid() != self._process

    @property
    def step(self) -> int:
        """Finished optimizer steps."""
        return self.controller.boundary.finished_steps

    def log(self, **scalars: Any) -> None:
        """Log values of the running step: numbers, pictures, texts, lists of numbers, tables."""
        self.controller.boundary.log(own_values(scalars))

    def log_finished(self, **scalars: Any) -> None:
        """Log values of what is finished, such as a validation between two epochs."""
        values = own_values(scalars)
        self.facts.log_values(self.step, values)
        self.controller.boundary.log_outside_step(values)

    # -- hooks ------------------------------------------------------------------------------------

    def show(self, *hooks: Hook, model: Any = None, optimizer: Any = None) -> None:
        """Show what these hooks measure inside the model to viewers, and measure for rules.

        Args:
            *hooks: each with its own key; a hook with the same key is replaced.
            model: the module in training. Needed once; `attach` and `Session` give theirs.
            optimizer: gradients and updates are read at its steps; a list if there are several.
        """
        manager = self._hook_manager
        if manager is None or model is not None:
            if model is None or optimizer is None:
                raise ConfigError(
                    "this run does not know its model yet: run.show(…, model=…, optimizer=…)"
                )
            manager = self._manage_hooks(model, optimizer)
        for hook in hooks:
            manager.add(hook)

    def hide(self, key: str) -> None:
        """Remove the hook with this key; the model is then as it was before."""
        if self._hook_manager is not None:
            self._hook_manager.remove(key)

    def _manage_hooks(self, model: Any, optimizer: Any) -> HookManager:
        """The manager for this model; hooks of an earlier model move to it."""
        from midstep.session.diagnosis.diagnoser import Diagnoser
        from midstep.session.hooks.hook_manager import HookManager

        earlier = self._hook_manager
        if earlier is not None and earlier.model is model:
            return earlier
        hooks = [] if earlier is None else earlier.hooks
        self._close_hooks()
        manager = HookManager(self.controller, model, optimizer, self._record_hook_off)
        self._hook_manager = manager
        self.diagnoser = Diagnoser(self.controller, model)
        if self._access is not None:
            self.diagnoser.use(self._access)
        for hook in hooks:
            manager.add(hook)
        return manager

    def _measure_layers(self) -> Layers | None:
        """The table of layers as it is now; None if the run knows no model."""
        manager = self._hook_manager
        if manager is None:
            return None
        from midstep.session.hooks.layer_norms import norms_at_end

        return norms_at_end(manager.model)

    def _close_hooks(self) -> None:
        manager, self._hook_manager = self._hook_manager, None
        diagnoser, self.diagnoser = self.diagnoser, None
        for each in (manager, diagnoser):
            if each is not None:
                each.close()

    def explain_with(self, access: TrainingAccess | None) -> None:
        """Look for the cause of stops with what this training gives; None: it has ended."""
        self._access = access
        if self.diagnoser is not None and access is not None:
            self.diagnoser.use(access)

    def _record_hook_off(self, key: str, why: str) -> None:
        """Record that a hook raised and was switched off."""
        self.event(
            Moment.INTERVENTION, who="system", kind="hook_off", hook=key, why=why, step=self.step
        )

    def event(self, moment: Moment, **fields: Any) -> int:
        """Write a record to the facts; returns its sequence number."""
        return self.facts.event(moment, **fields)

    def note_stop(self, cause: str) -> None:
        """Remember why the run is about to stop, such as the name of a signal."""
        self.stop_reason = cause

    def finish(self, status: str = "finished", **fields: Any) -> None:
        """Record that the training is over; a second call changes nothing."""
        if self.ended or self.is_in_fork:
            return
        self.ended = True
        # First: this sends the scalars of the last step, which belong before the end record.
        self.controller.boundary.finish()
        if status == "finished" and self.controller.get_state()["stopped"]:
            status = "stopped"
        if status == "stopped" and self.stop_reason is not None:
            fields = {"reason": self.stop_reason, **fields}
        if self.unsaved is not None:
            fields = {"unsaved": self.unsaved, **fields}
        self.status = status
        self.facts.event(Moment.TRAIN_END, status=status, **self._totals(), **fields)
        if self.facts.fault is not None:
            self.unsaved = self.unsaved or f"the facts cannot be written: {self.facts.fault}"
        else:
            self.stops.keep_end(status, self.stop_reason)

    @property
    def exit_code(self) -> int | str:
        """For `SystemExit` after a stop: 0, or the reason why its promise was not kept."""
        return 0 if self.unsaved is None else f"midstep: {self.unsaved}"

    def fail(self, error: BaseException) -> None:
        """Record what the training raised, and park there if a viewer may want to inspect it.

        The caller raises the error again. `StopTraining`, Ctrl-C and a `SystemExit` with 0 or with
        `exit_code` are recorded as a stop. A second call changes nothing.
        """
        if self.is_in_fork:
            return
        if isinstance(error, KeyboardInterrupt) and not self.ended:
            self.stop_reason = "KeyboardInterrupt"
            self.controller.stop()  # so that viewers see the state `stopped` too
            self.finish("stopped")
        is_exit = isinstance(error, SystemExit) and error.code in (None, 0, self.exit_code)
        if isinstance(error, StopTraining) or is_exit:
            self.finish("stopped")
        if self.ended:
            return
        # A dying loader worker must not interrupt the record of the failure, see sigchld_guard.
        with sigchld_ignored():
            reason = self._record_failure(error)
            self.stops.keep_end("exception", reason)
        park = isinstance(error, Exception) and self._should_park()
        # Ctrl-C releases a parked run; the training then ends with its own error.
        with suppress(KeyboardInterrupt):
            if park:
                print_parked_error(error, self.page_url)
            self.controller.boundary.fail(reason, park=park)

    def _record_failure(self, error: BaseException) -> str:
        """Record an error; returns its reason in words."""
        self.ended, self.status = True, "failed"
        reason = "".join(traceback.format_exception_only(error)).strip()
        trace = "".join(traceback.format_exception(error))
        if self.console is not None:  # the interpreter prints it after the run is closed
            self.console.add_traceback(trace)
        frames = traceback.walk_tb(error.__traceback__)
        in_model = any(frame.f_code.co_name == "_call_impl" for frame, _ in frames)
        self.controller.status.note_failure(reason, trace, self.step, in_model=in_model)
        self.facts.event(
            Moment.EXCEPTION,
            error=reason,
            error_type=type(error).__qualname__,
            traceback=trace,
            **self._totals(),
        )
        return reason

    def _totals(self) -> dict[str, Any]:
        return {"step": self.step, "total_time_s": time.monotonic() - self._began}

    def _should_park(self) -> bool:
        """Whether to park at an error: as configured, else if a user is there to inspect it."""
        if self.on_error is not None:
            return self.on_error == "park"
        if self.controller.captures.viewers > 0:
            return True
        # Without a page a user at the terminal could not release the run.
        return self.page_url is not None and _is_at_terminal()

    def close(self) -> None:
        """Close the facts and release the directory; closing twice is fine."""
        if self.is_in_fork:
            return
        self.ended = True
        self._undo.close()

    def __enter__(self) -> Run:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        try:
            if error is None:
                self.finish()
            else:
                self.fail(error)
        finally:
            self.close()  # also if the end cannot be recorded: the lease must be released

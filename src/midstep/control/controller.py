"""The controller: what any training loop calls, and what any outsider asks.

The training thread owns the training state. Outsiders put wishes into one ordered queue;
the training thread carries them out when it reaches the boundary between two steps.
"""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from typing import Any

from midstep.control.boundary import Boundary
from midstep.control.breakpoints import Action, Breakpoint
from midstep.control.capture import CapturedBatch, StepData, made
from midstep.control.changes import Change, Changes, Forces
from midstep.control.commands import Command, CommandRecord, CommandSpec
from midstep.control.conditions import make_condition
from midstep.control.desk import FAILED
from midstep.control.follower import Follower
from midstep.control.layer_report import LayerReport, Measure
from midstep.control.pace import Pace
from midstep.control.panels import Panel
from midstep.control.rules import Rule
from midstep.control.shared import End, Shared
from midstep.control.state import (
    describe_rewind,
    describe_state,
    is_moving,
    name_of_state,
)
from midstep.control.trajectory import EXACT_POINTS
from midstep.control.viewer import Viewer
from midstep.control.watches import Followed, Pair
from midstep.core.errors import ConfigError
from midstep.core.protocols import Sink

__all__ = ["DebugController"]


class DebugController:
    """Pause, step and look into any training loop.

    Two call sites are enough: `capture_batch` after `backward()` and `wait_if_paused` after
    `optimizer.step()`.

    >>> controller = DebugController()
    >>> controller.capture_batch([0.5], loss=0.1, step=0)
    >>> controller.wait_if_paused()
    True
    >>> controller.get_state()["step"]
    1
    """

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._shared = Shared(clock, wall)
        self._follower = Follower(self._shared)
        self._changes = Changes(self._shared)
        self._boundary = Boundary(self._shared, self._follower, self._changes)
        self._pace = Pace(clock)
        _ALIVE.add(self)

    # -- the loop's side: called by the training thread -------------------------------------------

    def begin_step(self, step: int) -> None:
        """Mark the index of the step that begins; only for loops that number steps themselves."""
        self._shared.index = step

    def move_to(self, step: int) -> None:
        """At a boundary: the loop stands at another step now, as after going back.

        What was captured and watched of steps behind it is forgotten; the facts keep it.
        """
        shared = self._shared
        with shared.lock:
            shared.index = shared.finished = step
            shared.loss = shared.evidence = None
            shared.reading.forget()
            shared.captures.forget_after(step)
            shared.watches.forget_after(step)
            self._changes.forget_after(step)
            shared.wake()

    def capture_batch(
        self,
        batch: Any,
        loss: Any,
        step: int | None = None,
        *,
        labels: Any = None,
        sample_ids: Any = None,
        losses: Any = None,
        kept: bool = False,
    ) -> None:
        """Note the step's index, and what it was trained on while somebody wants to know.

        Args:
            batch: a tensor, or a mapping or sequence of tensors. A clone is kept while
                somebody watches or a pause is asked for, never a live reference.
            loss: the loss as a number or a tensor of one element.
            step: index of this batch, counted from 0; the running count when left out.
            labels: one per sample, for the page.
            sample_ids: ids of the samples in batch order.
            losses: per-sample losses, where the loop knows them.
            kept: whether the loop leaves the batch as it is up to the boundary. Then it is cloned
                there, and not at all if somebody else captures this step's batch before.
        """
        shared = self._shared
        if step is not None:
            shared.index = step
        if shared.interest:
            self._boundary.capture(
                CapturedBatch(
                    step=shared.index,
                    batch=batch,
                    loss=loss,
                    labels=labels,
                    losses=losses,
                    sample_ids=sample_ids,
                ),
                kept=kept,
            )

    def keep_batch(
        self,
        batch: Any,
        loss: Any = None,
        *,
        labels: Any = None,
        sample_ids: Any = None,
        losses: Any = None,
    ) -> None:
        """Hold the batch of a step that will not end, to be looked at if its error parks the run.

        Nothing is recorded; otherwise as `capture_batch`.
        """
        self._shared.captures.take(
            CapturedBatch(
                step=self._shared.index,
                batch=batch,
                loss=loss,
                labels=labels,
                losses=losses,
                sample_ids=sample_ids,
            )
        )

    def log(self, values: Mapping[str, Any]) -> None:
        """Scalars of the step in progress: for charts, breakpoints and the facts."""
        if self._shared.interest:
            self._shared.scalars.update(values)
            self._shared.loss = values.get("loss", self._shared.loss)

    def log_between(self, values: Mapping[str, Any]) -> None:
        """Scalars of what is finished already, such as a validation: for breakpoints.

        Conditions see them at the next boundary, once; sinks are not told.
        """
        if self._shared.breakpoints.armed:
            self._shared.between.update(values)

    def capture_step_data(self, key: str, data: Any, *, panel: Panel | None = None) -> None:
        """Store anything for this step under `key`; it is cleared when the next one begins.

        It is cloned in the steps that are shown: ten a second while running, every one while
        stepping, and the one the loop parks at. Push tensors that you do not change afterwards.

        Args:
            key: its name on the page; `keys` and `force_detail` are reserved.
            data: numbers, text, tensors, or mappings and sequences of them. Or a function that
                gives them: it is called by the boundary, in steps that are shown or watched.
            panel: how it wants to be shown; without one the page shows what it holds.
        """
        if self._shared.watches.active:
            data = made(data)  # each point of a watched row has its metrics
        self._shared.captures.push(key, data, panel)
        self._shared.attention = self._shared.busy = True

    def show_step_data(self, key: str, data: Any, *, panel: Panel | None = None) -> None:
        """Show `data` beside this step's while the loop stands: for commands, on their thread.

        Arguments as in `capture_step_data`; it is cleared when the next step begins.
        """
        self._shared.captures.add(key, data, panel, self._shared.finished)

    def wait_if_paused(self) -> bool:
        """The boundary: ends a step, obeys the queue, parks if asked to. False once stopped."""
        shared = self._shared
        shared.index = shared.finished = shared.index + 1
        return self._boundary.end_step() if shared.attention else True

    def enter(self) -> bool:
        """The boundary before the first step: obeys the queue without counting a step."""
        self._shared.finished = self._shared.index
        return self._boundary.pass_through() if self._shared.attention else True

    def carry_out(self, command: Command) -> Future[Any]:
        """Carry out a command, and what waits before it: for the thread of a loop that is not on.

        Nothing moves then, so what needs a parked run is admitted too.
        """
        desk = self._shared.desk
        desk.idle = True
        try:
            future = self.submit(command)
            self._boundary.drain()
        finally:
            desk.idle = False
        return future

    @property
    def wants_data(self) -> bool:
        """Whether step data pushed now may be looked at; hooks may skip their work if not.

        True whenever this step could be the one that the loop parks at with somebody there.
        """
        return self._shared.wants_data

    @property
    def is_busy(self) -> bool:
        """Whether anybody looks, asks or waits; if not, this step only goes to the facts.

        One flag, read without the lock: for whatever is asked several times a step.
        """
        return self._shared.busy

    @property
    def shows_step(self) -> bool:
        """Whether the step in progress is to be shown, or may stop the run: never leave it out.

        While running that is ten steps a second; hooks that are dear may skip the others.
        """
        shared = self._shared
        return bool(shared.captures.wanted or shared.breakpoints.may_stop(shared.index + 1))

    def finish(self) -> None:
        """The training is over: what waits is refused, and so is what comes."""
        self._boundary.flush()
        self._shared.reading.settle(self._shared.loss)
        stopped = bool(self._shared.stopping) or self._shared.end == "stopped"
        self._shared.close("stopped" if stopped else "finished")

    def close_as(self, end: End, reason: str | None = None) -> None:
        """Show a run that is elsewhere, or over: every command is refused from now on.

        For whoever shows a run from its facts; a loop calls `finish` or `fail`.
        """
        self._shared.reason = reason
        self._shared.close(end)

    def fail(self, reason: str, *, park: bool = False) -> None:
        """The training raised. With `park`, stand here to be looked at until resumed or stopped."""
        shared = self._shared
        self._boundary.flush()
        with shared.lock:
            shared.end, shared.reason, shared.parked = "failed", reason, False
            shared.complete += shared.gate.pause()
            moves = shared.desk.fail()
            shared.refresh_flags()
        for record in moves:
            shared.finish_command(record, "refused", reason=FAILED)
        try:
            if park:
                self._boundary.obey()
        finally:  # also when Ctrl-C ends the wait
            shared.captures.held = None
            shared.close("failed")

    # -- verbs and commands: called from any thread -----------------------------------------------

    def pause(self) -> None:
        """Park at the next boundary."""
        self._ask("pause")

    def resume(self) -> None:
        """Go on."""
        self._ask("resume")

    def step(self, n: int = 1) -> None:
        """While paused: let exactly `n` steps pass, then park again."""
        self._ask("step", n=n)

    def run_until(self, step: int) -> None:
        """Go on, and park when `step` steps are finished."""
        self._ask("run_until", step=step)

    def stop(self) -> None:
        """End the training at the next boundary; beats pause and step."""
        self._ask("stop")

    def _ask(self, name: str, **payload: Any) -> None:
        future = self.submit(Command(name=name, payload=payload))
        if future.done() and (error := future.exception()) is not None:
            raise error

    def submit(self, command: Command) -> Future[Any]:
        """Put a command into the one ordered queue; the future ends as it ends.

        A command refused at once has a future that holds `ControlError`. A repeated id is
        answered with the first one's future.
        """
        shared = self._shared
        with shared.lock:
            known = shared.desk.find(command.id)
            if known is not None:
                return known.future
            record = shared.desk.open_record(command, shared.finished)
            refusal = shared.desk.refusal(command, shared.finished)
            over = command.name == "stop" and shared.desk.closed is not None
            if refusal is None and not over:
                self._admit(record)
        if refusal is not None:
            shared.finish_command(record, "refused", reason=refusal)
        elif over:
            shared.finish_command(record, "done")
        shared.notify()
        return record.future

    def _admit(self, record: CommandRecord) -> None:
        """Under the lock: queue the command and wake the training thread."""
        shared = self._shared
        if record.command.name == "stop":
            shared.stopping.append(record)  # it bypasses the queue
        else:
            shared.desk.admit(record)
        if record.command.name == "pause":
            shared.captures.wanted = True
        shared.wake()

    def cancel(self, command_id: str) -> bool:
        """Take a command back: refused if it still waits, ended early if it runs in slices."""
        shared = self._shared
        with shared.lock:
            record = shared.desk.find(command_id)
            waiting = record is not None and record in shared.desk.queue
            if record is None or not (waiting or record is shared.desk.running):
                return False
            record.cancelled = True
            if waiting:
                shared.desk.withdraw(record, shared.gate.mode)
                shared.wake()
        if waiting:
            shared.finish_command(record, "refused", reason="Cancelled before it began.")
        return True

    def recall(self, facts: Iterable[Mapping[str, Any]]) -> None:
        """Know commands of an earlier process again, from their facts: they are not repeated."""
        with self._shared.lock:
            self._shared.desk.recall(facts)

    def command(self, command_id: str) -> CommandRecord | None:
        """What became of a command, among the last 10,000."""
        with self._shared.lock:
            return self._shared.desk.find(command_id)

    def commands(self, limit: int = 100) -> list[CommandRecord]:
        """The last commands, newest last."""
        with self._shared.lock:
            return self._shared.desk.latest(limit)

    def register(self, spec: CommandSpec) -> None:
        """Offer a command; rooms above register theirs here."""
        with self._shared.lock:
            self._shared.desk.register(spec)

    def unregister(self, names: Iterable[str]) -> None:
        """Offer these commands no more; a loop that ends withdraws its own."""
        with self._shared.lock:
            for name in names:
                self._shared.desk.registry.pop(name, None)

    @property
    def registry(self) -> Mapping[str, CommandSpec]:
        """Every command by name."""
        return dict(self._shared.desk.registry)

    def hold(self, reason: str, until: Callable[[], bool]) -> None:
        """Park at the next boundary for `reason`, and go on by itself when `until()` is true."""
        with self._shared.changing():
            self._shared.hold = (reason, until)

    # -- what is ----------------------------------------------------------------------------------

    @property
    def is_paused(self) -> bool:
        """Asked to pause."""
        return self._shared.paused

    @property
    def is_parked(self) -> bool:
        """The training thread really stands at the boundary."""
        return self._shared.parked

    @property
    def is_stopping(self) -> bool:
        """Asked to stop, or stopped; takes no lock, so that a validation may ask often."""
        return bool(self._shared.stopping) or self._shared.end == "stopped"

    def offer_rewind(self, describe: Callable[[], dict[str, Any]] | None) -> None:
        """Say how far back the training can be taken, with a callable that any thread may ask."""
        self._shared.rewind = describe

    def get_rewind(self) -> dict[str, Any]:
        """How far back one can go; see `server.models_rewind.RewindOut` for each field.

        >>> DebugController().get_rewind()["available"]
        False
        """
        return describe_rewind(self._shared)

    @property
    def asked_by(self) -> str | None:
        """Who asked for the command that runs at the boundary now; None when none does."""
        running = self._shared.desk.running
        return None if running is None else running.command.who

    @property
    def finished_steps(self) -> int:
        """How many steps are finished."""
        return self._shared.finished

    @property
    def boundaries(self) -> int:
        """How many boundaries were passed; exact while a sink is there, else it may stand."""
        return self._shared.boundaries

    @property
    def is_moving(self) -> bool:
        """Whether the next boundary is due, so that a loop which does not reach it hangs.

        Not so while it stands, before its first step, during a command, or in a phase it has
        declared. Takes no lock, so that a heartbeat may ask at any time.
        """
        return is_moving(self._shared)

    @property
    def state_word(self) -> str:
        """One word for the state; takes no lock, so that a heartbeat may ask at any time."""
        return name_of_state(self._shared)

    @property
    def progress_told(self) -> dict[str, Any]:
        """As `describe` was told last: epoch, total_epochs, total_steps. Takes no lock."""
        about = self._shared.about
        return {name: about.get(name) for name in ("epoch", "total_epochs", "total_steps")}

    def describe(self, **about: Any) -> None:
        """Tell what the state shows: total_steps, epoch, total_epochs, lr, phase, timeline."""
        with self._shared.lock:
            self._shared.about = {**self._shared.about, **about}

    @property
    def phase(self) -> str | None:
        """What the loop says it does between two boundaries, such as a validation."""
        found = self._shared.about.get("phase")
        return None if found is None else str(found)

    def get_state(self) -> dict[str, Any]:
        """The state as the page shows it; see `server.models.StateOut` for each field."""
        return describe_state(self._shared, self._pace)

    def get_batch(self) -> dict[str, Any] | None:
        """The last captured batch with loss, step, labels and ids; None before the first."""
        batch = self._shared.captures.batch
        return None if batch is None else dict(vars(batch))

    def get_step_data(self, key: str) -> Any:
        """What was pushed under `key` in this step."""
        try:
            return self._shared.captures.step_data[key]
        except KeyError:
            there = ", ".join(self.list_step_data_keys()) or "nothing"
            raise ConfigError(f"no step data {key!r} in this step; there is {there}") from None

    def list_step_data_keys(self) -> list[str]:
        """What was pushed in this step."""
        return list(self._shared.captures.step_data)

    def shown_step_data(self) -> StepData:
        """The last complete step data that was cloned, with its step; what the page shows."""
        return self._shared.captures.shown

    # -- who looks and listens --------------------------------------------------------------------

    def viewer(self) -> Viewer:
        """Count as somebody who watches, until closed."""
        return Viewer(self._shared)

    @property
    def viewers(self) -> int:
        """How many watch."""
        return self._shared.viewers

    def add_sink(self, sink: Sink) -> None:
        """Send every step's scalars and every intervention to `sink`."""
        with self._shared.lock:
            self._shared.sinks = (*self._shared.sinks, sink)
            self._shared.refresh_flags()

    def remove_sink(self, sink: Sink) -> None:
        """Send nothing more to `sink`."""
        with self._shared.lock:
            self._shared.sinks = tuple(held for held in self._shared.sinks if held is not sink)
            self._shared.refresh_flags()

    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` when the state, a command, a breakpoint or a watch changes.

        It is called from any thread and must return at once. Gives back how to unsubscribe.
        """
        shared = self._shared
        with shared.lock:
            shared.listeners = (*shared.listeners, callback)

        def unsubscribe() -> None:
            with shared.lock:
                shared.listeners = tuple(held for held in shared.listeners if held is not callback)

        return unsubscribe

    # -- breakpoints and watches ------------------------------------------------------------------

    def add_breakpoint(
        self, kind: str, *, enabled: bool = True, action: Action = "pause", **settings: Any
    ) -> Breakpoint:
        """Stop when a condition holds, with the evidence captured.

        Args:
            kind: step, every, loss_nonfinite, loss_z, grad_norm, metric, sample, expression or
                rule.
            enabled: whether it is asked already.
            action: `pause` stops the run, `mark` only leaves a record when it begins to hold.
            **settings: what the condition takes; see `midstep.control.conditions`.

        >>> DebugController().add_breakpoint("expression", expression="loss > 2").words
        'loss > 2'
        """
        condition = make_condition(kind, settings)
        with self._shared.changing():
            return self._shared.breakpoints.add(condition, enabled=enabled, action=action)

    def remove_breakpoint(self, breakpoint_id: int) -> Breakpoint:
        """Take a breakpoint away; gives back what it was."""
        with self._shared.changing():
            return self._shared.breakpoints.remove(breakpoint_id)

    def enable_breakpoint(self, breakpoint_id: int, enabled: bool) -> Breakpoint:
        """Switch a breakpoint on or off."""
        with self._shared.changing():
            return self._shared.breakpoints.enable(breakpoint_id, enabled=enabled)

    def add_rule(
        self, rule: str, *, enabled: bool = True, action: Action = "pause", **settings: Any
    ) -> Breakpoint:
        """A ready-made breakpoint: `add_breakpoint("rule", rule=…)`.

        Args:
            rule: a name of `midstep.control.rule_book.RULES`.
            enabled: whether it is asked already.
            action: `pause` or `mark`.
            **settings: limit, low, window, every, layers, metric, as far as the rule takes them.

        >>> DebugController().add_rule("dead_relus", action="mark").condition.every
        10
        """
        return self.add_breakpoint(Rule.kind, enabled=enabled, action=action, rule=rule, **settings)

    def set_breakpoint_action(self, breakpoint_id: int, action: Action) -> Breakpoint:
        """Let a breakpoint stop the run, or only mark it."""
        with self._shared.changing():
            return self._shared.breakpoints.act(breakpoint_id, action)

    @property
    def measures_due(self) -> frozenset[Measure]:
        """What rules want to be measured inside the model in the step in progress."""
        shared = self._shared
        return shared.breakpoints.measures_at(shared.index + 1)

    def report_layers(self, report: LayerReport) -> None:
        """Hand over what was measured inside the model in this step: for rules."""
        self._shared.layer_report = report

    def on_step_begin(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` in the training thread as a step begins; gives back how to stop that.

        It is called while anybody looks or asks, and once more when the last of them has gone;
        in between it costs nothing, and is not called.
        """
        shared = self._shared
        with shared.lock:
            shared.step_listeners = (*shared.step_listeners, listener)

        def forget() -> None:
            with shared.lock:
                shared.step_listeners = tuple(
                    held for held in shared.step_listeners if held is not listener
                )

        return forget

    def list_breakpoints(self) -> list[Breakpoint]:
        """All breakpoints by id."""
        with self._shared.lock:
            return self._shared.breakpoints.all()

    def set_gradient_norm(self, read: Callable[[], Any]) -> None:
        """How to take the gradient norm: asked after backward, only when a breakpoint needs it."""
        self._shared.gradient_norm = read

    def add_source(self, name: str, read: Callable[[], Any], *, default: bool = False) -> None:
        """Offer a named tensor, whose rows can be watched."""
        with self._shared.lock:
            self._shared.watches.add_source(name, read, default=default)

    @property
    def sources(self) -> list[str]:
        """Names of the tensors whose rows can be watched, the default first, step data's last."""
        return self._follower.sources()

    def declare_forces(
        self, source: str, *, tensors: str | None = None, metrics: str | None = None
    ) -> None:
        """Say that something else than the gradient moves a tensor, and where that is told.

        Args:
            source: name of the tensor.
            tensors: key of step data with `som_delta`, the part of each step's change that is not
                the gradient's, and `som_targets`, where it pulls to; both of the tensor's shape.
            metrics: key of step data with columns of one value per row; `grad_magnitude` and
                `som_magnitude` stand for the norms of the two parts.
        """
        self._changes.declare(Forces(source=source, tensors=tensors, metrics=metrics))

    @property
    def change_sources(self) -> list[str]:
        """Tensors whose change by a step can be looked at, the one looked at by default first."""
        return self._changes.sources()

    def look_at_change(
        self, source: str | None = None, *, whole: bool = True, patience_s: float = 2.0
    ) -> Change:
        """What the last shown step did to a tensor: clones from before and after.

        Args:
            source: a name of `change_sources`; the first when left out.
            whole: whether the weights from before the step are needed as well.
            patience_s: how long to wait for a step while nothing was captured yet.

        Raises:
            ControlError: nothing is known; the message says why, and what to do.
        """
        return self._changes.look(source, whole=whole, patience_s=patience_s)

    def add_watch(self, feature_id: int, *, source: str | None = None) -> None:
        """Follow one row of a named tensor from now on, also while running.

        Args:
            feature_id: the row.
            source: a name of `sources`; the default one when left out. Rows of several tensors
                can be followed side by side, at most 64 in all.
        """
        self._follower.choose([feature_id], source, keep_others=True)

    def remove_watch(self, feature_id: int, *, source: str | None = None) -> None:
        """Follow a row no longer, in one source or in all; its trajectory stays until cleared."""
        self._follower.drop(feature_id, source)

    def set_watches(self, feature_ids: Iterable[int], source: str | None = None) -> None:
        """Replace the watch list of one source; no rows and no source: watch nothing at all."""
        self._follower.choose(feature_ids, source)

    def get_watched(self, source: str | None = None) -> list[int]:
        """The rows that are followed of a source; of the one chosen last when left out."""
        with self._shared.lock:
            return list(self._shared.watches.of(source).watched)

    def get_watched_by_source(self) -> dict[str, list[int]]:
        """The rows that are followed, by source."""
        with self._shared.lock:
            followed = self._shared.watches.followed
            return {name: list(each.watched) for name, each in followed.items() if each.watched}

    @property
    def watch_source(self) -> str | None:
        """The tensor that was chosen last, or the default one."""
        return self._shared.watches.of().source or None

    def get_trajectories(self, source: str | None = None) -> dict[int, list[dict[str, float]]]:
        """Points of every row that is or was watched: step, weight_cos_to_init, metrics.

        They are those of one source; of the one chosen last when left out.
        """
        return {row: path.points() for row, path in self._follower.look(source).rows.items()}

    def get_pairwise(self, source: str | None = None) -> dict[Pair, list[dict[str, float]]]:
        """Cosine of every watched pair over steps; of the source chosen last when left out."""
        return {pair: path.points() for pair, path in self._follower.look(source).pairs.items()}

    def copy_trajectories(
        self, *, points: int = EXACT_POINTS, in_all: int = 500_000
    ) -> list[Followed]:
        """Every source that is or was watched, in columns; the one chosen last comes first.

        Args:
            points: most points a series; what is beyond is thinned.
            in_all: most points over all series.
        """
        return self._follower.look_at_all(points, in_all)

    def export_trajectories(
        self, *, points: int = EXACT_POINTS, in_all: int = 500_000
    ) -> dict[str, Any]:
        """All points as JSON can hold them, other sources than the one chosen last by name."""
        current, *others = self.copy_trajectories(points=points, in_all=in_all)
        return {
            "source": current.source or None,
            **current.describe(),
            "others": {each.source: each.describe() for each in others},
            "exact": all(each.exact for each in (current, *others)),
        }

    def clear_trajectories(self) -> None:
        """Forget all points; what is watched goes on from here."""
        with self._shared.lock:
            self._shared.watches.clear()
            self._shared.wake()
        self._shared.notify()


_ALIVE: weakref.WeakSet[DebugController] = weakref.WeakSet()


def _renew_locks() -> None:
    for controller in _ALIVE:
        controller._shared.renew_locks()


os.register_at_fork(after_in_child=_renew_locks)

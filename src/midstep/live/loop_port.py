"""`LoopPort`: what a loop of the user's reports, as steps, boundaries and epochs.

`plain_loop` calls it from hooks on the loader, the optimizer and the loss.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any

from midstep.core.errors import StopTraining
from midstep.core.fault_guard import FaultGuard
from midstep.core.media.media_value import scalars_of
from midstep.data.order.epoch_cursor import IntIds
from midstep.live.loop import missed_boundaries as missed
from midstep.live.loop.accumulation_check import AccumulationCheck
from midstep.live.loop.declared_loss import DeclaredLoss
from midstep.live.loop.epoch_loop import EpochLoop
from midstep.live.loop.loader_length import loader_length
from midstep.live.loop.other_optimizers import OtherOptimizers, has_closure
from midstep.live.loop.state_search import look_for_state
from midstep.live.loop.step_loop import StepLoop
from midstep.live.loop.window import Window, integer_ids
from midstep.session.state.step_position import KeptVariables
from midstep.session.step_report import StepReporter, own_values

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from torch.optim import Optimizer

    from midstep.data.order.ordered_loader import OrderedLoader
    from midstep.data.order.step_order import StepOrder
    from midstep.live.loop_replay import LoopReplay
    from midstep.session import Run
    from midstep.session.engine.training_engine import TrainingEngine
    from midstep.session.state.training_parts import TrainingParts
    from midstep.session.state.training_state import StepMark

log = logging.getLogger("midstep.live")


class LoopPort:
    """Turns calls of loader, optimizer and loss into steps of a run. Runs on the training thread.

    A window opens with the first batch after a boundary and closes with the loader's next batch
    after an optimizer step, or with the next index of `run.steps`. The boundary is there, not in
    the optimizer's hook: scheduler, `zero_grad` and weight averages of the user have run by then.
    Only a loop that reaches no such boundary has it before the optimizer's next step.

    Args:
        run: receives steps and epochs.
        parts: what is trained.
        order: of the loader; None if it has none.
        total_steps: of the training, if the user knows it.
    """

    def __init__(
        self,
        run: Run,
        parts: TrainingParts,
        order: OrderedLoader | StepOrder | None,
        total_steps: int | None = None,
    ) -> None:
        import torch

        from midstep.session.metrics.runtime_metrics import RuntimeMetrics, used_rate
        from midstep.session.state.training_state import StepMarker

        self._grad_enabled = torch.is_grad_enabled
        self._run, self._controller, self._order = run, run.controller, order
        self._boundary = run.controller.boundary
        self._engine: TrainingEngine | None = None
        self._replay: LoopReplay | None = None
        self._metrics = RuntimeMetrics(parts.model, parts.optimizer, self._controller)
        self._reporter = StepReporter(run, self._metrics)
        self.declared = DeclaredLoss(parts.loss_fn, self)
        self.results = self.declared.results(run.controller, parts.model, lambda: self._window)
        self._marker = StepMarker(parts.model, order)
        self._read_rate = used_rate
        self._window = Window()
        self._has_looked_for_state = True
        self._accumulation = AccumulationCheck(parts.model)
        self._has_entered = self._has_stepped = self._has_stopped = self._is_detached = False
        self._passes = 0
        batches = loader_length(parts.train_loader)
        self._epochs = EpochLoop(self._controller, self._reporter, order, batches, total_steps)
        self._guard = FaultGuard("reporting the step", log)
        self._has_loader, self._total_steps = parts.train_loader is not None, total_steps
        self.others = OtherOptimizers.from_parts(parts)
        self._has_others = bool(self.others)
        self._loop: StepLoop | None = None
        self._is_pass_over = self._is_timed = self._has_batch_before = self.in_iteration = False
        self.stop_error: StopTraining | None = None  # what a stop raised
        self.kept = KeptVariables()
        """The variables of the loop that move with its state."""
        self.refusals = missed.BackRefusals()
        self._missed: missed.MissedBoundaries | None = missed.MissedBoundaries(
            parts.model, self.refusals
        )
        self._calls: missed.StepCalls | None = None
        self._late: Window | None = None

    def use(self, engine: TrainingEngine, replay: LoopReplay) -> None:
        """Take snapshots with this engine from now on."""
        self._engine, self._replay, self.refusals.engine = engine, replay, engine
        self._epochs.progress, self.kept = engine.state.progress, engine.state.kept
        self._has_looked_for_state = False

    def detach(self) -> None:
        """Ignore further calls; an iterator that outlives the run continues without us."""
        self._is_detached = True
        self._reporter.close()
        for each in (self._missed, self._calls, self.results):
            if each is not None:
                each.close()
        self._window = Window()
        self._order = self._engine = self._replay = self.refusals.engine = None
        del self._metrics, self._reporter, self._marker

    # -- the loader -------------------------------------------------------------------------------

    def before_batch(self) -> None:
        """A batch is requested: the boundary, if an optimizer step was made since the last one."""
        if self._is_detached or self.in_iteration:
            return  # in an iteration the next index is the boundary
        if self._replay is not None and self._pass_has_begun() and self._grad_enabled():
            self._begin_pass(self._replay)
        if self._has_stepped:
            missing = self._missed
            if missing is not None and missing.is_first and not missing.boundary_met():
                self._missed = None
            self.end_step(in_pass=True)
        elif not self._has_entered:
            self._has_entered = True
            self._controller.status.describe(lr=self._metrics.rate())
            self._continue_or_stop(self._boundary.enter())
        elif self._has_stopped:
            self._continue_or_stop(going=False)
        elif self._window.count and self._missed is not None:
            self._missed.second_batch()
        if self._window.count == 0 and self._grad_enabled() and not self._is_repeating():
            self._metrics.step_begins()

    def _pass_has_begun(self) -> bool:
        """Whether the loader began another pass since the last call."""
        before, self._passes = self._passes, self._order.passes if self._order is not None else 0
        return self._passes != before

    def _begin_pass(self, replay: LoopReplay) -> None:
        self._look_for_state_once()
        if replay.restored is not None:
            self._accumulation.begin(self._epochs.usual_batches(self._boundary.finished_steps))
        replay.begin_pass()
        self._keep_first_state()

    def _look_for_state_once(self) -> None:
        if not self._has_looked_for_state:
            # Now, not at the start: the script may make a generator right before its loop.
            self._has_looked_for_state = True
            FaultGuard("looking for generators", log).run(
                look_for_state, self._engine, self.refusals.report
            )

    def _keep_first_state(self) -> None:
        """The state before the first step, or before the first one of a pass."""
        if self._engine is not None:
            self._engine.reapply_due()
            self._engine.take_due_snapshot()

    def _is_repeating(self) -> bool:
        return self._replay is not None and self._replay.is_active

    def after_batch(self, batch: Any, ids: Sequence[Any] | None) -> None:
        """The loader gave a batch; one that was requested without gradients is not trained on."""
        if self._is_detached or not self._grad_enabled():
            return
        self._is_pass_over, self._controller.captures.last_batch = False, None
        if self._window.count == 0 and self._epochs.is_between:
            self._epochs.batch_came()
        known = ids if type(ids) is IntIds else integer_ids(ids)
        self._window.add(batch, known, keep=self._controller.breakpoints.can_stop)

    def pass_ended(self) -> None:
        """The loader is exhausted. A pass without a step (an evaluation) is not an epoch."""
        self._is_pass_over = True
        if self._accumulation.is_moved and not self._is_detached:
            self._accumulation.pass_ended(self._window.count, self.refusals.report)
        if self._is_detached or self._boundary.finished_steps == self._epochs.progress.first_step:
            return
        self._epochs.pass_ended()

    # -- optimizer and loss -----------------------------------------------------------------------

    def before_step(self, optimizer: Optimizer, args: Sequence[Any], kwargs: Any) -> None:
        """A hook of the optimizer before its step: read its rate, take norms where wanted."""
        if self._has_stepped and not self.in_iteration and self._calls is None:
            self._second_step(optimizer)
        self._window.used_lr = self._read_rate(optimizer)
        metrics = self._metrics
        if metrics.measuring or metrics.wants_norm:
            metrics.before_step(has_closure=has_closure(args, kwargs))

    def after_step(self, *_: object) -> None:
        """A hook of the optimizer after its step."""
        self._has_stepped = True
        self._window.optimizer_steps += 1
        if self._missed is not None:
            self._missed.step_made()
        if self._metrics.measuring or self._metrics.wants_norm:
            self._metrics.after_step()

    def _second_step(self, optimizer: Optimizer) -> None:
        """A second optimizer step begins: it is the boundary if the loader gave no batch for it."""
        if self._is_detached or (self._window.count and not self._is_pass_over):
            return
        self.refusals.refuse(
            missed.OTHER_BATCHES if self._has_loader else missed.NO_LOADER, keep_checkpoints=False
        )
        self._late, self._window, self._has_stepped = self._window, Window(), False
        self._calls = missed.StepCalls(optimizer, self._before_call)

    def _before_call(self) -> None:
        """The optimizer is about to step, and no other boundary was met."""
        is_blind = not self._is_detached and not self.in_iteration
        if is_blind and self._has_stepped and (not self._window.count or self._is_pass_over):
            self._end_late_step()
            self.end_step(in_pass=False)

    def _end_late_step(self) -> None:
        """End the step before the one that has just ended: its boundary was noticed too late."""
        if self._late is not None:
            now, self._window, self._late = self._window, self._late, None
            self.end_step(in_pass=False)
            self._window, self._has_stepped = now, True

    def loss_computed(
        self, arguments: Sequence[Any], named: Any, output: Any, *, is_named: bool = False
    ) -> None:
        """The loss ran; it counts in training, before the optimizer step."""
        is_open = self._window.count or self.in_iteration
        if is_open and not self._has_stepped and self._grad_enabled():
            self._window.note_loss(output)
            self.results.loss_called(arguments, named, output, is_named=is_named)
            if self._metrics.measuring and len(arguments) == 2:
                self._metrics.outputs(*arguments)

    # -- calls of the user ------------------------------------------------------------------------

    def log(self, scalars: Mapping[str, Any]) -> None:
        """Values of the running step, or, between steps, of what is finished."""
        values = own_values(scalars)
        if self._window.count or self._has_stepped or self.in_iteration:
            self._window.scalars.update(values)
        elif not self._is_repeating():
            self._run.log_finished(**values)
            self._epochs.add_metrics(scalars_of(values))

    def batch(self, batch: Any) -> None:
        """Set what the running step trains on, in place of the loader's batches."""
        if self._is_detached:
            return
        if not self.in_iteration and (self._loop is not None or not self._has_entered):
            self._has_batch_before = True
        self._controller.captures.last_batch = None
        self._window.declare(batch, keep=self._controller.breakpoints.can_stop)

    # -- run.steps --------------------------------------------------------------------------------

    def steps(self, n: int | None) -> Iterator[int]:
        """The indices of `run.steps`."""
        if self._loop is None:
            total = self._total_steps
            self._loop = StepLoop(self, self._controller, self._engine, self._replay, total)
        return self._loop.iterate(n)

    def enter_steps(self) -> None:
        """The boundary before the first index of a loop over `run.steps`."""
        if self._replay is not None:
            self._look_for_state_once()
            self._replay.in_pass = True
            self._keep_first_state()
        self._has_entered = True
        self._controller.status.describe(lr=self._metrics.rate(), phase=None)
        self._continue_or_stop(self._boundary.enter())

    def time_step(self) -> None:
        """Time the step in progress, however many indices it takes."""
        if not self._is_timed and not self._is_repeating():
            self._is_timed = True
            self._metrics.step_begins()

    @property
    def is_step_made(self) -> bool:
        """Whether an optimizer stepped since the last boundary."""
        return self._has_stepped or (self._has_others and self.others.largest_step_count > 0)

    def pass_index(self) -> None:
        """A boundary without a finished step: only the index has moved."""
        window, is_repeated = self._window, self._is_repeating()
        is_accumulating = window.count > 0  # then a later iteration steps with these gradients
        if not is_accumulating:
            self._window = Window()
            if window.scalars and not is_repeated:
                self._run.log_finished(**window.scalars)
        self._look(in_step=is_accumulating)

    def step_end(self) -> None:
        """A boundary that the user calls: of a step, or inside an iteration of `run.steps`."""
        if self._is_detached:
            return
        if self.in_iteration:
            self._look(in_step=True)
            return
        if self.is_step_made:
            self.end_step(in_pass=True)
        else:
            self.pass_index()
        self.time_step()

    def _look(self, *, in_step: bool) -> None:
        """Run commands and park if paused, without counting a step."""
        if self._is_repeating():
            return
        engine = self._engine
        if engine is not None:
            engine.training_thread = threading.get_ident()
            engine.state.in_step = in_step
        try:
            self._continue_or_stop(
                self._boundary.pass_without_step(self._window.scalars, in_step=in_step)
            )
        finally:
            if engine is not None:
                engine.state.in_step = False

    def epochs(self, n: int) -> Iterator[int]:
        """Epochs up to n - 1; each is recorded when the next one is requested."""
        is_resumed = self._replay is not None and self._replay.is_resuming
        first = 0 if self._replay is None else self._replay.first_epoch()
        yield from self._epochs.iterate(first, n, self._end_epoch, is_resumed=is_resumed)

    def _end_epoch(self, epoch: int) -> None:
        """The next epoch is requested: the user has done all that belongs to this one."""
        if self._order is not None:
            self._order.commit()
            self._order.set_epoch(epoch + 1)
        if self._has_stepped:  # the loop left its pass before the loader's next batch
            self.end_step(in_pass=False)
        self._accumulation.epoch_ended(self._window.count, self.refusals.report)
        if self._loop is not None:
            self._loop.epoch_ended()
        self._epochs.record()
        if self._engine is not None and self._replay is not None:
            self._replay.in_pass = False
            self._replay.forget_resume()
            self._engine.rewind.ring.clear()  # no state of a finished epoch can be reached
            self._replay.restart()
            self._engine.epoch_finished()

    def end(self, error: BaseException | None) -> None:
        """The run is left: end the last step, take the last checkpoint, record the end."""
        if isinstance(error, StopTraining) and not self._has_stopped:
            self._save_interrupted()
        if error is not None:
            self._record_open_window()
            if isinstance(error, Exception) and not isinstance(error, StopTraining):
                self._guard.run(self._hold_window, self._window)
            self._run.fail(error)
            return
        try:
            if self.is_step_made:
                self._end_late_step()
                self.end_step(in_pass=False)
        except StopTraining:
            self._run.finish("stopped")
        else:
            if self._engine is not None:
                self._engine.ended("finished")
            self._run.finish()

    def _save_interrupted(self) -> None:
        """A signal ended the loader's workers first: save the boundary before the open batch."""
        if self._engine is None:
            return
        if self.in_iteration or self._window.count or self._has_stepped or self._is_repeating():
            self._engine.stopped_in_step()
        else:
            self._engine.ended("stopped")

    def _record_open_window(self) -> None:
        """Record what was logged in a step that never ended: it may explain the error."""
        if self._window.scalars:
            # Directly to the facts: no boundary follows that would send them there.
            self._run.facts.log_values(self._boundary.finished_steps + 1, self._window.scalars)

    def _take_results(self, window: Window) -> Any:
        is_observed, logged = self._controller.captures.is_observed, window.scalars.get("loss")
        return self.results.take(window.batches, logged) if is_observed else None

    def _hold_window(self, window: Window) -> None:
        results = self._take_results(window)
        self._reporter.hold_failed_batch(window.batches, window.loss(), window.ids, results)

    # -- the boundary -----------------------------------------------------------------------------

    def end_step(self, *, in_pass: bool) -> None:
        """Close the window, in the order that `training_engine` describes; park if paused."""
        window, self._window, self._has_stepped = self._window, Window(), False
        self._has_entered, self._is_timed = True, False
        if self._has_others:
            window.optimizer_steps = max(window.optimizer_steps, self.others.largest_step_count)
        if self._missed is not None and self._missed.is_ahead:
            window.batches, window.ids = self._missed.drop_prefetched(window.batches), None
        if self._order is not None:
            self._order.commit()
        engine, replay = self._engine, self._replay
        if engine is not None:
            engine.state.step += 1
        loss = window.loss()
        self._epochs.progress.step_finished(loss, batches=window.count)
        is_repeated = replay is not None and replay.is_active
        if self._accumulation.needs_steps:
            self._accumulation.step_ended(window.count, self.refusals.report)
        mark = self._mark(window, loss, is_repeated=is_repeated)
        if engine is not None and replay is not None and is_repeated:
            self._accumulation.begin(self._epochs.usual_batches(engine.state.step))
            if not replay.step_repeated(mark):
                self.results.clear()
                return
            self._guard.run(self._hold_window, window)  # the boundary shows it, without a report
            self._reporter.show_repeated(loss)
        else:
            self._report_guarded(window, loss, mark)
            if engine is not None and replay is not None:
                if self._loop is not None:
                    order = self._order if self._has_loader else None
                    self.refusals.check_iteration(order, batch_came_first=self._has_batch_before)
                replay.in_pass = in_pass
                if replay.restored is not None:
                    replay.forget_resume()
                # From the first step on: a pause before it has no new state to save.
                engine.training_thread = threading.get_ident()
                engine.step_finished(can_go_back=in_pass)
        self._continue_or_stop(self._boundary.wait_if_paused())

    def _mark(self, window: Window, loss: Any, *, is_repeated: bool) -> StepMark:
        """What the step is compared by when it is repeated."""
        # A rate that the user logs is the one in the record.
        lr = window.scalars.get("lr", window.used_lr)
        if self._engine is None:
            step = self._boundary.finished_steps + 1
            return self._marker.take(step, lr, loss, window.batches)
        return self._engine.state.mark_step(lr, loss, window.batches, is_repeated=is_repeated)

    def _report_guarded(self, window: Window, loss: Any, mark: StepMark) -> None:
        if self._guard.is_off:
            return
        try:
            self._report_window(window, loss, mark)
        except Exception as error:  # noqa: BLE001
            # A fault of ours must not end the user's training; reports are off from now on.
            self._guard.switch_off(error)

    def _report_window(self, window: Window, loss: Any, mark: StepMark) -> None:
        if self._epochs.needs_batches:
            self._epochs.set_batches_per_step(window.count)
        if window.optimizer_steps > 1:
            window.scalars["optimizer_steps"] = float(window.optimizer_steps)
        rates = self.others.take(window.used_lr) if self._has_others else {}
        self._reporter.report(
            step=self._boundary.finished_steps + 1,  # the boundary has not counted it yet
            epoch=self._epochs.number,
            loss=loss,
            scalars={**rates, **window.scalars} if rates else window.scalars,
            batches=window.batches,
            sample_ids=window.ids,
            results=self._take_results(window),
            mark=mark,
        )

    def _continue_or_stop(self, going: bool) -> None:
        if not going:
            engine = self._engine
            if engine is not None and not self._has_stopped:
                # Inside of a step there is no state to save: the last boundary is kept.
                engine.stopped_in_step() if engine.state.in_step else engine.ended("stopped")
            # If the user's code catches this error and asks for another batch, it is raised again.
            self._has_stopped = True
            words = f"stopped after {self._boundary.finished_steps} steps"
            self.stop_error = StopTraining(words, self._run.exit_code)
            raise self.stop_error

"""`LoopPort`: what a loop of the user's reports, as steps, boundaries and epochs.

`plain_loop` calls it from hooks on the loader, the optimizer and the loss.
"""

from __future__ import annotations

import logging
import math
import sys
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from midstep.control.capture.captured_data import as_float
from midstep.core.errors import StopTraining
from midstep.core.fault_guard import FaultGuard
from midstep.data.batch_structure import count_samples, tensors_of
from midstep.data.order.epoch_cursor import IntIds
from midstep.live.accumulation_check import AccumulationCheck
from midstep.session.state.epoch_progress import EpochProgress
from midstep.session.step_report import StepReporter, as_scalars

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from torch.optim import Optimizer

    from midstep.data.order.ordered_loader import OrderedLoader
    from midstep.live.loop_replay import LoopReplay
    from midstep.session import Run
    from midstep.session.engine.training_engine import TrainingEngine
    from midstep.session.state.training_parts import TrainingParts
    from midstep.session.state.training_state import StepMark

log = logging.getLogger("midstep.live")
BETWEEN_EPOCHS = "the work between two epochs"
SAMPLES_KEPT = 512
"""A batch picture shows at most this many samples; later micro-batches are not kept."""
BYTES_KEPT = 16 * 2**20
"""Micro-batches after this many bytes are not kept either, except for the first one."""
MICRO_BATCHES_KEPT = 4096
"""Bounds the memory of a loop that never reaches an optimizer step."""


@dataclass(kw_only=True, slots=True)
class Window:
    """What happens between two step boundaries: the micro-batches of one optimizer step."""

    batches: list[Any] = field(default_factory=list)
    """References to the first micro-batches; they are never changed."""
    ids: list[int] | None = field(default_factory=list)
    """Ids of all samples; None as soon as the ids of one micro-batch are unknown."""
    scalars: dict[str, Any] = field(default_factory=dict)
    """The values that the loop logged."""
    count: int = 0
    """How many micro-batches there were so far."""
    outputs: dict[int, Any] = field(default_factory=dict)
    """The last output of the loss module, by number of the micro-batch."""

    def add(self, batch: Any, ids: Sequence[int] | None) -> None:
        """Record a micro-batch."""
        self.count += 1
        if self.count > MICRO_BATCHES_KEPT:
            return
        if self.count == 1 or self._has_room():
            self.batches.append(batch)
        if ids is None:
            self.ids = None
        elif self.ids is not None:
            self.ids.extend(ids)

    def _has_room(self) -> bool:
        samples = sum(count_samples(batch) or 0 for batch in self.batches)
        size = sum(tensor.nbytes for batch in self.batches for tensor in tensors_of(batch))
        return samples < SAMPLES_KEPT and size < BYTES_KEPT

    def note_loss(self, output: Any) -> None:
        """Record an output of the loss module; the last one of a micro-batch counts."""
        if hasattr(output, "detach") and output.is_floating_point():
            self.outputs[self.count] = output.detach()

    def loss(self) -> Any:
        """The logged loss, or else the mean of the loss module's outputs over the micro-batches."""
        if "loss" in self.scalars or not self.outputs:
            return self.scalars.get("loss")
        means = [output.mean() for output in self.outputs.values()]
        return sum(means[1:], start=means[0]) / len(means)

    def losses(self) -> Any:
        """Per-sample losses, if the loss module returns them and there is one micro-batch."""
        outputs = list(self.outputs.values())
        if len(outputs) != 1 or self.count != 1:
            return None
        samples = count_samples(self.batches[0])
        return outputs[0] if outputs[0].dim() == 1 and len(outputs[0]) == samples else None


class LoopPort:
    """Turns calls of loader, optimizer and loss into steps of a run. Runs on the training thread.

    A window opens with the first batch after a boundary and closes with the loader's next batch
    after an optimizer step. The boundary is there, not in the optimizer's hook: scheduler,
    `zero_grad` and weight averages of the user have run by then.

    Args:
        run: receives steps and epochs.
        parts: what is trained.
        order: of the loader; None if it has none.
    """

    def __init__(self, run: Run, parts: TrainingParts, order: OrderedLoader | None) -> None:
        import torch

        from midstep.session.metrics.runtime_metrics import RuntimeMetrics, used_rate
        from midstep.session.state.training_state import StepMarker

        self._grad_enabled = torch.is_grad_enabled
        self._run, self._controller, self._order = run, run.controller, order
        self._boundary = run.controller.boundary
        self._engine: TrainingEngine | None = None
        self._replay: LoopReplay | None = None
        self._progress = EpochProgress()
        self._metrics = RuntimeMetrics(parts.model, parts.optimizer, self._controller)
        self._reporter = StepReporter(run, self._metrics)
        self._marker = StepMarker(parts.model, order)
        self._read_rate, self._used_lr = used_rate, None
        self._window = Window()
        self.report_inexact: Callable[[str], object] = log.warning
        """Called with what a resume or a step back cannot repeat exactly."""
        self._has_looked_for_state = True
        self._accumulation = AccumulationCheck()
        self._has_entered = self._has_stepped = self._has_stopped = self._is_detached = False
        self._passes = 0
        self._epoch = 0
        self._total_epochs: int | None = None
        self._batches_per_epoch = _length(parts.train_loader)
        self._steps_per_epoch: int | None = None
        self._is_between_epochs = True
        self._epoch_metrics: dict[str, Any] = {}
        self._guard = FaultGuard("reporting the step", log)

    def use(self, engine: TrainingEngine, replay: LoopReplay) -> None:
        """Take snapshots with this engine from now on."""
        self._engine, self._replay = engine, replay
        self._progress = engine.state.progress
        self._has_looked_for_state = False

    def detach(self) -> None:
        """Ignore further calls; an iterator that outlives the run continues without us."""
        self._is_detached = True
        self._metrics.close()
        self._window = Window()
        self._order = self._engine = self._replay = None
        del self._metrics, self._reporter, self._marker

    # -- the loader -------------------------------------------------------------------------------

    def before_batch(self) -> None:
        """A batch is requested: the boundary, if an optimizer step was made since the last one."""
        if self._is_detached:
            return
        if self._replay is not None and self._pass_has_begun() and self._grad_enabled():
            self._begin_pass(self._replay)
        if self._has_stepped:
            self._end_step(in_pass=True)
        elif not self._has_entered:
            self._has_entered = True
            self._controller.status.describe(lr=self._metrics.rate())
            self._continue_or_stop(self._boundary.enter())
        elif self._has_stopped:
            self._continue_or_stop(going=False)
        if self._window.count == 0 and self._grad_enabled() and not self._is_repeating():
            self._metrics.step_begins()

    def _pass_has_begun(self) -> bool:
        """Whether the loader began another pass since the last call."""
        before, self._passes = self._passes, self._order.passes if self._order is not None else 0
        return self._passes != before

    def _begin_pass(self, replay: LoopReplay) -> None:
        if not self._has_looked_for_state:
            # Now, not at the start: the script may make a generator right before its loop.
            self._has_looked_for_state = True
            FaultGuard("looking for generators", log).run(self._look_for_state)
        if replay.restored is not None:
            self._accumulation.begin(self._usual_batches())
        replay.begin_pass()
        if self._engine is not None:
            self._engine.reapply_due()
            self._engine.take_due_snapshot()  # of the state before the first step

    def _usual_batches(self) -> int:
        """Micro-batches of a step, by those of this epoch so far."""
        steps = self._boundary.finished_steps - self._progress.first_step
        return -(-self._progress.batches // max(1, steps))

    def _look_for_state(self) -> None:
        """Save the generators that the loop draws from; report what cannot be saved."""
        from midstep.session.state.generators import declared, search_frame

        if self._engine is None:
            return
        state = self._engine.state
        known = [*state.known_generators, *state.user_generators.generators.values()]
        search = search_frame(sys._getframe(), [*known, *declared(state.parts)])
        for words in state.look_for_state(search):
            self.report_inexact(f"a resume will not be exact: {words}")

    def _is_repeating(self) -> bool:
        return self._replay is not None and self._replay.is_active

    def after_batch(self, batch: Any, ids: Sequence[Any] | None) -> None:
        """The loader gave a batch; one that was requested without gradients is not trained on."""
        if self._is_detached or not self._grad_enabled():
            return
        if self._window.count == 0 and self._is_between_epochs:
            self._is_between_epochs = False
            self._controller.status.describe(epoch=self._epoch, phase=None)
        self._window.add(batch, ids if type(ids) is IntIds else _integer_ids(ids))

    def pass_ended(self) -> None:
        """The loader is exhausted. A pass without a step, such as an evaluation, is no epoch."""
        if self._accumulation.is_moved and not self._is_detached:
            self._accumulation.pass_ended(self._window.count, self.report_inexact)
        if self._is_detached or self._boundary.finished_steps == self._progress.first_step:
            return
        self._is_between_epochs = True
        self._controller.status.describe(phase=BETWEEN_EPOCHS)
        if self._total_epochs is None:
            self._record_epoch()

    # -- optimizer and loss -----------------------------------------------------------------------

    def before_step(self, optimizer: Optimizer, *_: object) -> None:
        """A hook of the optimizer before its step: read its rate, take norms where wanted."""
        self._used_lr = self._read_rate(optimizer)
        if self._metrics.measuring or self._metrics.wants_norm:
            self._metrics.before_step()

    def after_step(self, *_: object) -> None:
        """A hook of the optimizer after its step."""
        self._has_stepped = True
        if self._metrics.measuring:
            self._metrics.after_step()

    def loss_computed(self, arguments: Sequence[Any], output: Any) -> None:
        """The loss module ran; it counts in training, before the optimizer step."""
        if self._window.count and not self._has_stepped and self._grad_enabled():
            self._window.note_loss(output)
            if self._metrics.measuring and len(arguments) == 2:
                self._metrics.outputs(*arguments)

    # -- calls of the user ------------------------------------------------------------------------

    def log(self, scalars: Mapping[str, Any]) -> None:
        """Scalars of the running step, or, between steps, of what is finished."""
        values = as_scalars(scalars)
        if self._window.count:
            self._window.scalars.update(values)
        elif not self._is_repeating():
            self._run.log_finished(**values)
            self._epoch_metrics.update(values)

    def epochs(self, n: int) -> Iterator[int]:
        """Epochs up to n - 1; each is recorded when the next one is requested."""
        is_resuming = self._replay is not None and self._replay.is_resuming
        first = 0 if self._replay is None else self._replay.first_epoch()
        for epoch in range(first, n):
            if self._order is not None:
                self._order.set_epoch(epoch)
            self._epoch, self._total_epochs = epoch, n
            if not is_resuming:  # a resumed epoch began at a step before the checkpoint
                self._progress.first_step = self._boundary.finished_steps
            is_resuming = False
            self._reporter.epoch_began()
            self._controller.status.describe(epoch=epoch, total_epochs=n, phase=None)
            self._describe_total_steps()
            yield epoch
            self._end_epoch(epoch)

    def _end_epoch(self, epoch: int) -> None:
        """The next epoch is requested: the user has done all that belongs to this one."""
        if self._order is not None:
            self._order.commit()
            self._order.set_epoch(epoch + 1)
        if self._has_stepped:  # the loop left its pass before the loader's next batch
            self._end_step(in_pass=False)
        self._record_epoch()
        if self._engine is not None and self._replay is not None:
            self._replay.in_pass, self._replay.restored = False, None
            self._engine.rewind.ring.clear()  # no state of a finished epoch can be reached
            self._replay.restart()
            self._engine.epoch_finished()

    def _record_epoch(self) -> None:
        metrics, self._epoch_metrics = self._epoch_metrics, {}
        step, progress = self._boundary.finished_steps, self._progress
        self._reporter.epoch_ended(
            epoch=self._epoch,
            step=step,
            train_loss=progress.train_loss,
            val_loss=as_float(metrics.pop("val_loss", None)),
            metrics={name: as_float(value) for name, value in metrics.items()},
            cost=self._reporter.epoch_cost(),
        )
        if step > progress.first_step:
            self._steps_per_epoch = step - progress.first_step
        progress.begin_epoch(step)
        self._epoch += 1

    def _describe_total_steps(self) -> None:
        per_epoch = self._steps_per_epoch or self._batches_per_epoch
        if self._total_epochs is not None and per_epoch is not None:
            left = (self._total_epochs - self._epoch) * per_epoch
            self._controller.status.describe(total_steps=self._progress.first_step + left)

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
            if self._has_stepped:
                self._end_step(in_pass=False)
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
        if self._window.count or self._has_stepped or self._is_repeating():
            self._engine.stopped_in_step()
        else:
            self._engine.ended("stopped")

    def _record_open_window(self) -> None:
        """Record what was logged in a step that never ended: it may explain the error."""
        if self._window.scalars:
            # Directly to the facts: no boundary follows that would send them there.
            self._run.facts.log_values(self._boundary.finished_steps + 1, self._window.scalars)

    def _hold_window(self, window: Window) -> None:
        self._reporter.hold_failed_batch(window.batches, window.loss(), window.ids, window.losses())

    # -- the boundary -----------------------------------------------------------------------------

    def _end_step(self, *, in_pass: bool) -> None:
        """Close the window, in the order that `training_engine` describes; park if paused."""
        window, self._window, self._has_stepped = self._window, Window(), False
        self._has_entered = True
        if self._order is not None:
            self._order.commit()
        engine, replay = self._engine, self._replay
        if engine is not None:
            engine.state.step += 1
        loss = window.loss()
        self._progress.step_finished(loss, batches=window.count)
        is_repeated = replay is not None and replay.is_active
        if self._accumulation.is_moved:
            self._accumulation.step_ended(window.count, self.report_inexact)
        mark = self._mark(window, loss, is_repeated=is_repeated)
        if replay is not None and is_repeated:
            self._accumulation.begin(self._usual_batches())
            if not replay.step_repeated(mark):
                return
            self._guard.run(
                self._hold_window, window
            )  # the batch that the boundary shows, without a report
        else:
            self._report_guarded(window, loss, mark)
            if engine is not None and replay is not None:
                replay.in_pass, replay.restored = in_pass, None
                # From the first step on: a pause before it has no new state to save.
                engine.training_thread = threading.get_ident()
                engine.step_finished(can_go_back=in_pass)
        self._continue_or_stop(self._boundary.wait_if_paused())

    def _mark(self, window: Window, loss: Any, *, is_repeated: bool) -> StepMark:
        """What the step is recognised by when it is made again."""
        # A rate that the user logs is the one in the record.
        lr = window.scalars.get("lr", self._used_lr)
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
        if self._steps_per_epoch is None and self._batches_per_epoch is not None:
            # By the first step: how many batches a step takes is the user's choice.
            self._steps_per_epoch = math.ceil(self._batches_per_epoch / max(1, window.count))
            self._describe_total_steps()
        self._reporter.report(
            step=self._boundary.finished_steps + 1,  # the boundary has not counted it yet
            epoch=self._epoch,
            loss=loss,
            scalars=window.scalars,
            batches=window.batches,
            sample_ids=window.ids,
            losses=window.losses() if self._controller.captures.is_observed else None,
            mark=mark,
        )

    def _continue_or_stop(self, going: bool) -> None:
        if not going:
            if self._engine is not None and not self._has_stopped:
                self._engine.ended("stopped")
            # If the user's code catches this error and asks for another batch, it is raised again.
            self._has_stopped = True
            raise StopTraining(f"stopped after {self._boundary.finished_steps} steps")


def _integer_ids(ids: Sequence[Any] | None) -> Sequence[int] | None:
    """Ids if they are integers, else None: a breakpoint cannot look for names or pairs."""
    if ids is None or isinstance(ids, range) or set(map(type, ids)) <= {int}:
        return ids
    return None


def _length(loader: Any) -> int | None:
    """Batches in a pass; None for a loader without a length."""
    length_called = getattr(loader, "_IterableDataset_len_called", None)
    try:
        return len(loader)
    except TypeError:
        return None
    finally:
        # A DataLoader remembers that `len` was called, and would warn of a wrong length later on.
        if hasattr(loader, "_IterableDataset_len_called"):
            loader._IterableDataset_len_called = length_called

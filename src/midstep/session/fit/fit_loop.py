"""`FitLoop`: one call of `fit`. It drives the trainer, reports steps, and ends epochs."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from torch import nn

from midstep.core.errors import StopTraining, StorageError
from midstep.core.media.media_value import MediaValue
from midstep.core.moments import Moment
from midstep.facts.format.step_frames import CHECKSUM_NAMES
from midstep.session.fit.evaluation import EvaluationStopped
from midstep.session.fit.resume_check import check_first_step
from midstep.session.metrics.runtime_metrics import RuntimeMetrics
from midstep.session.signals import stop_at_signals
from midstep.session.step_report import StepReporter, own_values
from midstep.session.step_results import StepResults

if TYPE_CHECKING:
    from midstep.session.engine.training_engine import TrainingEngine
    from midstep.session.fit.trainer import EpochOutcome, StepOutcome, Trainer


log = logging.getLogger("midstep.session")
HOW_TO = (
    "To see the loss of each sample, give the session your loss module as loss_fn, and call it "
    "once in the training step."
)


@dataclass(frozen=True, kw_only=True)
class StepRecord:
    """What `@session.on_step` gets after each optimizer step."""

    step: int
    """Finished optimizer steps."""
    epoch: int
    sample_ids: Sequence[Any]
    """Ids of the samples in batch order, from the sampler."""
    loss: float
    metrics: Mapping[str, Any] = field(default_factory=dict)
    """Scalars of the step; with `skipped` if the weights did not change."""


@dataclass(frozen=True, kw_only=True)
class EpochRecord:
    """What `@session.on_epoch` gets after each epoch and its validation."""

    epoch: int
    step: int
    """Finished optimizer steps."""
    train_loss: float | None
    val_loss: float | None
    """None if no validation was due."""
    metrics: Mapping[str, float]
    """Other means of the validation."""
    is_best: bool
    """Whether the validation loss is the lowest so far."""
    cost: Mapping[str, Any]
    """`epoch_time_s`, `throughput` and `max_memory_mib`, without the validation."""


EpochHook = Callable[[EpochRecord], Mapping[str, Any] | None]
"""Called after each epoch; what it returns is added to the epoch's record in the facts."""


class FitLoop:
    """Runs on the training thread until the total is reached, or a stop.

    Args:
        trainer: makes steps.
        engine: takes checkpoints and snapshots.
        on_step: called with the record of each step.
        on_boundary: called at each boundary, before commands run.
        on_epoch: called after each epoch.
    """

    def __init__(
        self,
        trainer: Trainer,
        engine: TrainingEngine,
        *,
        on_step: Sequence[Callable[[StepRecord], object]] = (),
        on_boundary: Sequence[Callable[[], object]] = (),
        on_epoch: Sequence[EpochHook] = (),
    ) -> None:
        self._trainer, self._engine, self._run = trainer, engine, engine.run
        self._controller = engine.run.controller
        self._on_step, self._on_boundary, self._on_epoch = on_step, on_boundary, on_epoch
        parts = trainer.parts
        self._metrics = RuntimeMetrics(parts.model, parts.optimizer, self._controller)
        self._reporter = StepReporter(engine.run, self._metrics)
        self._results = self._note_losses()

    def _note_losses(self) -> StepResults:
        """See the loss of each micro-batch: in the default step, or by a hook."""
        trainer, parts = self._trainer, self._trainer.parts
        hooked: nn.Module | None = None
        if parts.training_step is not None:
            hooked = parts.loss_fn if isinstance(parts.loss_fn, nn.Module) else parts.model
        results = StepResults(
            self._controller, parts.loss_fn, HOW_TO, lambda: trainer.micro_batches, hooked
        )
        captures = self._controller.captures

        def note(output: Any, target: Any, loss: Any) -> None:
            if captures.is_observed:
                results.loss_called((output, target), {}, loss)

        trainer.optimizer_step.on_loss = note
        return results

    @property
    def loaders(self) -> tuple[Any, ...]:
        """Every loader of the session."""
        parts = self._trainer.parts
        return parts.train_loader, parts.val_loader, parts.test_loader

    def run(self) -> bool:
        """Train; True when the total is reached, False when stopped."""
        trainer, boundary = self._trainer, self._controller.boundary
        trainer.observer, trainer.interrupted = self._metrics, lambda: boundary.is_stopping
        self._engine.training_thread = threading.get_ident()
        self._describe()
        try:
            self._engine.reapply_due()
            self._engine.take_due_snapshot()  # of the state before the first step
            if self._engine.comparisons.unchecked_resume is not None:
                check_first_step(trainer, self._engine)
            self._call_on_boundary()
            going = boundary.enter()
            while going and not trainer.finished:
                going = self._advance()
            return self._end(going=going)
        finally:
            self._engine.training_thread = None
            trainer.observer, trainer.interrupted = None, lambda: False
            trainer.optimizer_step.on_loss = None
            self._results.close()
            self._reporter.close()

    def _advance(self) -> bool:
        """End an epoch, or make a step up to its boundary; False to stop."""
        trainer, controller = self._trainer, self._controller
        if trainer.epoch_is_over():
            return self._end_epoch()
        controller.captures.last_batch = None  # the next step needs the memory
        self._report(trainer.advance())
        if not controller.captures.is_observed:  # else a command may still read them
            trainer.batches = []
        self._engine.step_finished()
        self._call_on_boundary()
        return controller.boundary.wait_if_paused()

    def _call_on_boundary(self) -> None:
        for call in self._on_boundary:
            call()

    def _end(self, *, going: bool) -> bool:
        """Take the last checkpoint; if an epoch is over, end it first."""
        if going and self._trainer.is_known_to_be_over:
            going = self._end_epoch(last=True)
        try:
            self._engine.ended("finished" if going else "stopped")
        except StorageError:
            if going:  # the run stays parked until the disk takes it, or a stop
                going = self._controller.boundary.enter()
                if going:  # the disk has taken it
                    self._run.unsaved = None
        return going

    # -- reports ----------------------------------------------------------------------------------

    def _describe(self) -> None:
        trainer = self._trainer
        self._controller.status.describe(
            epoch=trainer.epoch,
            total_epochs=trainer.expected_epochs(),
            total_steps=trainer.expected_steps(),
            lr=self._metrics.rate(),
            timeline=trainer.state.timeline,
            phase=None,
        )

    def _report(self, outcome: StepOutcome) -> None:
        """Report a step, then call the user's hooks with its record."""
        scalars = own_values(outcome.metrics, arrays=False)
        if outcome.skipped:
            scalars["skipped"] = 1
        values = self._reporter.report(
            step=outcome.step,
            epoch=outcome.epoch,
            loss=outcome.loss,
            scalars=scalars,
            batches=outcome.batches,
            sample_ids=outcome.sample_ids,
            results=(
                self._results.take(outcome.batches, outcome.loss)
                if self._controller.captures.is_observed
                else None
            ),
            mark=outcome.mark,
        )
        if self._on_step:
            record = StepRecord(
                step=outcome.step,
                epoch=outcome.epoch,
                sample_ids=outcome.sample_ids,
                loss=outcome.loss,
                metrics={
                    name: each
                    for name, each in values.items()
                    if name not in CHECKSUM_NAMES and type(each) is not MediaValue
                },
            )
            for call in self._on_step:
                call(record)

    def save_interrupted(self) -> None:
        """A stop came while the next batch was fetched: save the boundary before it."""
        if self._trainer.is_before_step:
            self._trainer.state.in_step = False
            try:
                self._engine.ended("stopped")
            except StorageError as error:
                log.warning("%s", error)
        else:
            self._engine.stopped_in_step()

    def hold_failed_batch(self) -> None:
        """Keep the batch of a step that raised, for viewers of a run that parks at the error."""
        batches = self._trainer.batches
        self._reporter.hold_failed_batch(batches, results=self._results.take(batches))

    def _end_epoch(self, *, last: bool = False) -> bool:
        """Validate, step the scheduler, record, take a checkpoint; False if a stop came first."""
        status = self._controller.status
        cost = self._reporter.epoch_cost()  # without the validation
        status.describe(phase=None if self._trainer.parts.val_loader is None else "in validation")
        try:
            outcome = self._trainer.end_epoch()
        except EvaluationStopped:
            return False
        finally:
            status.describe(phase=None)
        self._record_epoch(outcome, cost)
        status.describe(epoch=self._trainer.epoch, lr=self._metrics.rate())
        # After the last epoch `_end` takes a checkpoint of the same state, but marks none as best.
        if not last or outcome.is_best:
            self._engine.epoch_finished(best=outcome.is_best)
        return True

    def _record_epoch(self, outcome: EpochOutcome, cost: Mapping[str, Any]) -> None:
        metrics = dict(outcome.validation or {})
        val_loss = metrics.pop("loss", None)
        if outcome.validation is not None:
            scalars = {f"val_{name}": value for name, value in metrics.items()}
            self._run.log_finished(val_loss=val_loss, **scalars)
            self._run.event(
                Moment.VALIDATION_END,
                epoch=outcome.epoch,
                step=outcome.step,
                split="val",
                val_loss=val_loss,
                metrics=metrics,
            )
        self._reporter.epoch_ended(
            epoch=outcome.epoch,
            step=outcome.step,
            train_loss=outcome.train_loss,
            val_loss=val_loss,
            metrics=metrics,
            cost=cost,
            skipped=outcome.skipped,
            **self._call_on_epoch(outcome, val_loss, metrics, cost),
        )

    def _call_on_epoch(
        self,
        outcome: EpochOutcome,
        val_loss: float | None,
        metrics: Mapping[str, float],
        cost: Mapping[str, Any],
    ) -> dict[str, Any]:
        """Call the user's hooks; returns the fields that they add to the record of the epoch."""
        if not self._on_epoch:
            return {}
        record = EpochRecord(
            epoch=outcome.epoch,
            step=outcome.step,
            train_loss=outcome.train_loss,
            val_loss=val_loss,
            metrics=metrics,
            is_best=outcome.is_best,
            cost=cost,
        )
        fields: dict[str, Any] = {}
        for call in self._on_epoch:
            fields |= call(record) or {}
        return fields


def run_fit(
    loop: FitLoop, engine: TrainingEngine, *, on_finished: Callable[[], object], ends_run: bool
) -> bool:
    """Train to the end, to a stop or to an error; True if the process should end after that.

    It should after a signal, and after a stop whose checkpoint could not be saved.

    Args:
        loop: the loop.
        engine: of the open run.
        on_finished: called if the total was reached, before that is recorded.
        ends_run: whether the run ends with this call.
    """
    run, is_unsaved = engine.run, False
    with stop_at_signals(run.controller, run.note_stop, loaders=loop.loaders) as signals:
        try:
            if reached := loop.run():
                on_finished()
            if ends_run:  # else the user opened the run, and records its end
                run.finish("finished" if reached else "stopped")
                is_unsaved = not reached and run.unsaved is not None
        except BaseException as error:
            # A signal to the whole process group kills the loader's workers first, and the loader
            # raises because of that; it is not a failure of the training.
            is_stop = signals.caused(error)
            if is_stop:
                loop.save_interrupted()
            _fail(engine, loop, StopTraining("stopped by a signal") if is_stop else error)
            if not is_stop:
                raise
    return signals.is_received or is_unsaved


def _fail(engine: TrainingEngine, loop: FitLoop, error: BaseException) -> None:
    """Name the last checkpoint in the error, then park at it if a viewer is there."""
    if isinstance(error, Exception) and not isinstance(error, StopTraining):
        if engine.writer.last is not None:
            error.add_note(f"midstep: the last checkpoint is {engine.writer.last}")
        loop.hold_failed_batch()
    engine.run.fail(error)

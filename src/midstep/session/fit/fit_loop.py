"""The loop of a session: steps, epochs, what is told of them, and when a checkpoint is taken."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from midstep.core.errors import StopTraining, StorageError
from midstep.core.moments import Moment
from midstep.data.batch_structure import join, labels_of
from midstep.session.fit.evaluation import EvaluationStopped
from midstep.session.metrics.runtime_metrics import RuntimeMetrics
from midstep.session.sigchld_guard import sigchld_ignored
from midstep.session.signals import stop_at_signals
from midstep.session.state.epoch_progress import EpochMeter

if TYPE_CHECKING:
    from midstep.session.checkpoint.checkpoint_writer import CheckpointWriter
    from midstep.session.fit.trainer import EpochOutcome, StepOutcome, Trainer
    from midstep.session.helm import Helm
    from midstep.session.run import Run


SHARE_OF_FREE = 0.25
"""Of a device's free memory that a clone may take; the next step needs the rest."""


@dataclass(frozen=True, kw_only=True)
class StepRecord:
    """What `@session.on_step` gets after each optimizer step."""

    step: int
    """Finished optimizer steps."""
    epoch: int
    sample_ids: Sequence[Any]
    """In batch order, from the sampler."""
    loss: float
    metrics: Mapping[str, Any] = field(default_factory=dict)
    """Scalars of the step; `skipped` is among them when the weights were left alone."""


def _is_short_of_memory(training: Trainer) -> bool:
    """Whether a clone might not fit on the device; then it goes to the host at once."""
    if training.device.type != "cuda":
        return False
    import torch

    free, _ = torch.cuda.mem_get_info(training.device)
    cached = torch.cuda.memory_reserved(training.device) - torch.cuda.memory_allocated(
        training.device
    )
    return training.state_bytes() > SHARE_OF_FREE * (free + cached)


class FitLoop:
    """One call of `fit`: runs on the training thread until the total, or a stop.

    Args:
        training: what moves.
        run: where it is told.
        keeper: where checkpoints go.
        on_step: called with the record of each step.
        on_boundary: called at each boundary, before the queue is obeyed.
    """

    def __init__(
        self,
        training: Trainer,
        run: Run,
        keeper: CheckpointWriter,
        *,
        on_step: Sequence[Callable[[StepRecord], object]] = (),
        on_boundary: Sequence[Callable[[], object]] = (),
    ) -> None:
        self._training, self._run, self._keeper = training, run, keeper
        self._controller, self._config = run.controller, training.config
        self._on_step, self._on_boundary = on_step, on_boundary
        self._meter = EpochMeter()
        self._watch = RuntimeMetrics(
            training.parts.model, training.parts.optimizer, self._controller
        )
        self._thread = threading.get_ident()
        self._kept: tuple[int, ...] | None = None
        self._told: tuple[float | None, int] | None = None

    def run(self) -> bool:
        """Train; True when the total is reached, False when stopped."""
        training, control = self._training, self._controller
        training.observer, training.interrupted = self._watch, lambda: control.boundary.is_stopping
        unsubscribe = control.sinks.subscribe(self._look_whether_parked)
        self._describe()
        try:
            self._meet_boundary()
            going = control.boundary.enter()
            while going and not training.finished:
                going = self._once()
            return self._end(going=going)
        finally:
            unsubscribe()
            training.observer, training.interrupted = None, lambda: False
            self._watch.close()

    def _once(self) -> bool:
        """An epoch's end, or a step up to its boundary; False to stop."""
        if self._training.epoch_is_over():
            return self._end_epoch()
        outcome = self._training.advance()
        self._report(outcome)
        if not self._controller.captures.is_observed:  # else a command may still ask about them
            self._training.batches = []
        every = self._config.checkpoint_every_steps
        if every is not None and outcome.step % every == 0:
            self.keep("every")
        self._meet_boundary()
        return self._controller.wait_if_paused()

    def _meet_boundary(self) -> None:
        for call in self._on_boundary:
            call()

    def _end(self, *, going: bool) -> bool:
        """The last checkpoint; at the end of an epoch what that ends with comes first."""
        if going and self._training.is_known_to_be_over:
            going = self._end_epoch(last=True)
        try:
            # A signal to the whole group ends the loader's workers too; that is no failure here.
            with sigchld_ignored():
                self.keep("end" if going else "stop", wait=True)
        except StorageError:
            if going:  # stands until the disk takes it, or somebody stops the run
                going = self._controller.boundary.enter()
        return going

    # -- checkpoints ------------------------------------------------------------------------------

    def keep(self, reason: str, *, best: bool = False, wait: bool = False) -> None:
        """Take a checkpoint, unless this very state has one."""
        training = self._training
        place = (training.timeline, training.step, training.epoch, training.cursor)
        if self._kept == place and not best:
            if wait:
                self._keeper.wait_or_raise()
            return
        snapshot = training.take(to_host=_is_short_of_memory(training))
        if wait:
            self._keeper.write_now(snapshot, reason)
        else:
            self._keeper.write_soon(snapshot, reason, best=best)
        self._kept = place

    def changed(self) -> None:
        """The state was changed from outside: what was kept of this step is out of date."""
        self._kept = self._told = None

    def _look_whether_parked(self) -> None:
        """Called when anything changed: the training thread that parks takes a checkpoint."""
        if threading.get_ident() != self._thread or not self._controller.is_parked:
            return
        if self._training.replaying:  # on its way to another step, or about to return
            return
        if self._config.deterministic_pauses and not self._run.ended:
            self.keep("pause")

    # -- what is told -----------------------------------------------------------------------------

    def _describe(self) -> None:
        training = self._training
        self._controller.status.describe(
            epoch=training.epoch,
            total_epochs=training.expected_epochs(),
            total_steps=training.expected_steps(),
            lr=self._watch.rate(),
            timeline=training.timeline,
            phase=None,
        )

    def _report(self, outcome: StepOutcome) -> None:
        """Scalars, batch and record of a step."""
        metrics: dict[str, Any] = dict(outcome.metrics)
        samples = len(outcome.sample_ids)
        if not self._watch.is_untimed:
            metrics.update(self._watch.step_ended(step=outcome.step, samples=samples))
        for step, scalars in self._watch.arrived() if self._watch.in_transfer else ():
            if step == outcome.step:
                metrics.update({**scalars, **metrics})
            else:
                self._run.facts.log_values(step, scalars)
        if outcome.skipped:
            metrics["skipped"] = 1
        self._meter.add(samples)
        about = (self._watch.rate(), outcome.epoch)
        if about != self._told:
            self._told = about
            self._controller.status.describe(lr=about[0], epoch=about[1])
        self._run.log(**metrics)
        self._capture(outcome)
        if self._on_step:
            record = StepRecord(
                step=outcome.step,
                epoch=outcome.epoch,
                sample_ids=outcome.sample_ids,
                loss=outcome.loss,
                metrics=metrics,
            )
            for call in self._on_step:
                call(record)

    def _capture(self, outcome: StepOutcome) -> None:
        """The batch for whoever looks; joined only if somebody might."""
        control = self._controller
        batch = outcome.batches[0]
        labels = None
        if control.captures.is_observed:
            batch = join(list(outcome.batches))
            labels = partial(labels_of, batch)
        control.capture_batch(
            batch, outcome.loss, labels=labels, sample_ids=outcome.sample_ids, kept=True
        )

    def keep_batch(self) -> None:
        """Hold the batch of a step that raised, to be looked at if the run parks."""
        batches = self._training.batches
        if batches:
            batch = join(batches)
            self._controller.captures.hold_failed_batch(batch, labels=labels_of(batch))

    def _end_epoch(self, *, last: bool = False) -> bool:
        """Validation, scheduler, records and checkpoint of an epoch; False if stopped in it."""
        cost = self._meter.end()
        self._controller.status.describe(
            phase=None if self._training.parts.val_loader is None else "in validation"
        )
        try:
            outcome = self._training.end_epoch()
        except EvaluationStopped:
            return False
        finally:
            self._controller.status.describe(phase=None)
        self._record_epoch(outcome, cost)
        self._meter.begin()
        self._controller.status.describe(epoch=self._training.epoch, lr=self._watch.rate())
        if self._config.checkpoint_epochs and (not last or outcome.is_best):
            self.keep("epoch", best=outcome.is_best)
        return True

    def _record_epoch(self, outcome: EpochOutcome, cost: Mapping[str, Any]) -> None:
        found = dict(outcome.validation or {})
        val_loss = found.pop("loss", None)
        if outcome.validation is not None:
            scalars = {f"val_{name}": value for name, value in found.items()}
            self._run.log_finished(val_loss=val_loss, **scalars)
            self._run.event(
                Moment.VALIDATION_END,
                epoch=outcome.epoch,
                step=outcome.step,
                split="val",
                val_loss=val_loss,
                metrics=found,
            )
        self._run.event(
            Moment.EPOCH_END,
            epoch=outcome.epoch,
            step=outcome.step,
            split="train",
            train_loss=outcome.train_loss,
            val_loss=val_loss,
            skipped=outcome.skipped,
            metrics=found,
            **cost,
        )


def run_fit(helm: Helm, fit: FitLoop, *, finished: Callable[[], object], ends_run: bool) -> bool:
    """Train to the end, to a stop or to an error; True if a signal ended it.

    Args:
        helm: of the open session.
        fit: the loop.
        finished: called if the total was reached, before that is told.
        ends_run: whether the run ends with it.
    """
    run, helm.fit = helm.run, fit
    with stop_at_signals(run.controller, lambda cause: _note(run, cause)) as signals:
        try:
            if reached := fit.run():
                finished()
            if ends_run:
                run.finish("finished" if reached else "stopped")
        except BaseException as error:
            # To the whole group: then a loader's worker dies of it first, and the loader raises.
            by_signal = signals.caused(error)
            _fail(helm, fit, StopTraining("stopped by a signal") if by_signal else error)
            if not by_signal:
                raise
        finally:
            helm.fit = None
    return signals.asked


def _note(run: Run, cause: str) -> None:
    run.stop_reason = cause


def _fail(helm: Helm, fit: FitLoop, error: BaseException) -> None:
    """Name the last good checkpoint in the error, then stand with it if somebody looks."""
    if isinstance(error, Exception) and not isinstance(error, StopTraining):
        if helm.keeper.last is not None:
            error.add_note(f"midstep: the last checkpoint is {helm.keeper.last}")
        fit.keep_batch()
    helm.run.fail(error)

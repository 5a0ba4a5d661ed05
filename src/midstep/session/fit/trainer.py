"""`Trainer`: makes the steps and ends the epochs of a session, without facts or control.

A step is an optimizer step. Validation and a scheduler's epoch belong to the start of the next
step, so the boundary after an epoch's last batch has all its samples trained and nothing else done.
Restoring a state and advancing n times repeats n steps bit for bit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from midstep.core.errors import ConfigError
from midstep.data.order.order_strategy import warn_user
from midstep.session.config import SessionConfig
from midstep.session.fit.batch_feed import BatchFeed
from midstep.session.fit.evaluation import evaluate
from midstep.session.fit.optimizer_step import MicroBatches, OptimizerStep, StepObserver
from midstep.session.state.generators import search_parts
from midstep.session.state.training_parts import TrainingParts
from midstep.session.state.training_state import StepMark, TrainingState, find_loader_generators

if TYPE_CHECKING:
    import torch

    from midstep.session.rewind.back import Rewind
    from midstep.session.rewind.repeated_steps import RepeatedSteps
    from midstep.session.state.snapshot import Snapshot

PROGRESS_EVERY_S = 0.05


@dataclass(frozen=True, kw_only=True)
class StepOutcome:
    """One finished optimizer step."""

    step: int
    """Finished optimizer steps, this one included."""
    epoch: int
    sample_ids: Sequence[Any]
    """Ids of the samples in batch order; those of micro-batches one after the other."""
    loss: float
    """Mean over the micro-batches."""
    metrics: Mapping[str, Any] = field(default_factory=dict)
    """Scalars of the user's step, and `grad_norm` if the gradients were clipped."""
    skipped: bool = False
    """Whether the weights did not change because the loss or a scaled gradient was not finite."""
    batches: Sequence[Any] = ()
    """References to the micro-batches, as the loader gave them."""
    mark: StepMark | None = None
    """What it is compared by when it is repeated."""


@dataclass(frozen=True, kw_only=True)
class EpochOutcome:
    """One finished epoch."""

    epoch: int
    step: int
    train_loss: float | None
    """Mean over its steps that were not skipped; None if there are none."""
    validation: Mapping[str, float] | None
    """`loss`, `accuracy` and others; None if no validation was due."""
    is_best: bool
    """Whether the validation loss is the lowest so far."""
    skipped: int
    """Steps of it that were skipped."""


class Trainer:
    """Makes the steps of a session.

    Args:
        parts: what is trained.
        config: how.
        report: called once for each thing that is not exact, if that is not refused.

    >>> import torch
    >>> from torch import nn
    >>> model = nn.Linear(2, 1)
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> data = [(torch.ones(2), torch.ones(1))] * 4
    >>> loader = torch.utils.data.DataLoader(data, batch_size=2)
    >>> parts = TrainingParts(
    ...     model=model, optimizers=[optimizer], loss_fn=nn.MSELoss(), train_loader=loader
    ... )
    >>> with Trainer(parts, SessionConfig()) as trainer:
    ...     start = trainer.state.take()
    ...     first = trainer.advance().loss
    ...     trainer.state.restore(start)
    ...     trainer.advance().loss == first, trainer.step, trainer.state.cursor
    (True, 1, 2)
    """

    def __init__(
        self,
        parts: TrainingParts,
        config: SessionConfig,
        *,
        report: Callable[[str], object] = warn_user,
    ) -> None:
        self.parts, self.config = parts, config
        self.total_steps: int | None = None
        self.total_epochs: int | None = None
        self.replaying = False
        """Whether steps are repeated: then nothing is reported."""
        self.is_before_step = True
        """Whether the step that was begun has computed nothing yet: it waits for its batch."""
        self.interrupted: Callable[[], bool] = lambda: False
        """Called between the batches of a validation; True ends the validation early."""
        self.batches: list[Any] = []
        """References to the micro-batches of the running step, or of the last one."""
        self.optimizer_step = OptimizerStep(parts, config)
        """Makes the steps."""
        self.micro_batches: MicroBatches | None = None
        """The micro-batches of the step in progress; None between and during repeated steps."""
        # Only `__enter__` patches the loader, so its generators are still found here.
        self._feed = BatchFeed(parts.train_loader, config.order, report=report)
        generators = find_loader_generators(parts.train_loader)
        self.state = TrainingState(parts, self._feed.order, generators, config)
        self.state.scaler = self.optimizer_step.scaler
        self.state.before_restore = self._before_restore
        _check_scheduler(parts)

    def __enter__(self) -> Trainer:
        self._feed.order.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._leave_pass()
        self._feed.order.__exit__()

    @property
    def step(self) -> int:
        """Finished optimizer steps."""
        return self.state.step

    @property
    def epoch(self) -> int:
        """The running epoch."""
        return self.state.epoch

    @property
    def device(self) -> torch.device:
        """Where batches are moved to."""
        return self.optimizer_step.device

    @property
    def observer(self) -> StepObserver | None:
        """Measures steps from inside; not called for repeated steps."""
        return self.optimizer_step.observer

    @observer.setter
    def observer(self, observer: StepObserver | None) -> None:
        self.optimizer_step.observer = observer

    def look_for_state(self) -> None:
        """Save the generators that the user's functions draw from; refuse what cannot be saved.

        Raises:
            ConfigError: with `enforce_sampler_state`; otherwise it is reported.
        """
        state = self.state
        search = search_parts(self.parts, state.known_generators)
        problems = [*state.look_for_state(search), *state.unsaved_state()]
        for problem in problems:
            state.order.refuse_or_report(problem)

    # -- totals -----------------------------------------------------------------------------------

    @property
    def finished(self) -> bool:
        """Whether the requested total is reached; False while none is set."""
        if self.total_steps is not None:
            return self.step >= self.total_steps
        return self.total_epochs is not None and self.epoch >= self.total_epochs

    def expected_steps(self) -> int | None:
        """Steps in total; None if the loader has no length."""
        if self.total_steps is not None or self.total_epochs is None:
            return self.total_steps
        per_epoch = self._steps_per_epoch()
        return None if per_epoch is None else self.total_epochs * per_epoch

    def expected_epochs(self) -> int | None:
        """Epochs in total, the last one perhaps incomplete; None if the loader has no length."""
        if self.total_epochs is not None or self.total_steps is None:
            return self.total_epochs
        per_epoch = self._steps_per_epoch()
        return -(-self.total_steps // per_epoch) if per_epoch else None

    def _steps_per_epoch(self) -> int | None:
        batches = self._feed.batches_per_epoch
        return None if batches is None else -(-batches // self.config.accumulate_steps)

    # -- steps and epochs -------------------------------------------------------------------------

    def advance(self) -> StepOutcome:
        """Make one optimizer step, after the end of an epoch if one is due."""
        while self.epoch_is_over():
            self.end_epoch()
        micro_batches = self.optimizer_step.begin(quiet=self.replaying)
        self.micro_batches = None if self.replaying else micro_batches
        self.is_before_step = True
        ids: list[Any] = []
        self.batches = batches = []
        while micro_batches.count < self.config.accumulate_steps and self._feed.fetch():
            batch, batch_ids = self._feed.take()
            ids.extend(batch_ids)
            batches.append(batch)
            self.is_before_step = False
            micro_batches.add(batch)
        self.micro_batches = None
        result = micro_batches.close()
        if not result.skipped:
            for call in self.parts.after_step:
                call(self.parts.model)
        state, epoch = self.state, self.epoch
        state.order.commit()
        state.step += 1
        state.in_step = False
        state.progress.step_finished(result.loss, batches=len(batches), skipped=result.skipped)
        mark = state.mark_step(result.lr, result.loss, batches, is_repeated=self.replaying)
        return StepOutcome(
            step=state.step,
            epoch=epoch,
            sample_ids=ids,
            loss=result.loss,
            metrics=result.metrics,
            skipped=result.skipped,
            batches=batches,
            mark=mark,
        )

    def epoch_is_over(self) -> bool:
        """Whether the epoch has no further batch. Fetches the next one, so a step must follow."""
        self.state.in_step = self.is_before_step = True  # also if fetching raises
        self.state.in_step = self._feed.fetch()
        return not self.state.in_step

    @property
    def is_known_to_be_over(self) -> bool:
        """The same as far as the loader's length tells, without fetching a batch."""
        batches = self._feed.batches_per_epoch
        return batches is not None and self.state.progress.batches >= batches

    def end_epoch(self) -> EpochOutcome:
        """Validate if that is due, step the scheduler, and move to the next epoch.

        A validation that is interrupted leaves everything unchanged.
        """
        state, progress = self.state, self.state.progress
        epoch = state.epoch
        if not progress.batches:
            raise ConfigError("the training loader gave no batch; is its dataset empty?")
        is_due = self.parts.val_loader is not None and (
            (epoch + 1) % self.config.val_every_n_epochs == 0
        )
        validation = self.evaluate(self.parts.val_loader) if is_due else None
        self.optimizer_step.epoch_ended(None if validation is None else validation["loss"])
        for call in self.parts.after_epoch:
            call(self.parts.model)
        outcome = EpochOutcome(
            epoch=epoch,
            step=state.step,
            train_loss=progress.train_loss,
            validation=validation,
            is_best=progress.is_best(validation),
            skipped=progress.skipped,
        )
        progress.begin_epoch(state.step)
        self._leave_pass()
        state.order.set_epoch(epoch + 1)
        return outcome

    def evaluate(self, loader: Any) -> dict[str, float]:
        """Means over a loader, without any effect on the training."""
        return evaluate(
            self.parts.model,
            loader,
            self.optimizer_step.evaluation,
            device=self.device,
            autocast=self.optimizer_step.autocast,
            interrupted=self.interrupted,
        )

    def _leave_pass(self) -> None:
        self._feed.reset()
        self.state.in_step = False

    def _before_restore(self) -> None:
        """Drop the running iterator, whose position is about to change, and the gradients."""
        self._leave_pass()
        self.parts.optimizer.zero_grad()

    @contextmanager
    def replay(self) -> Iterator[None]:
        """Steps inside the block are repetitions: observers are not called."""
        before, self.replaying = self.replaying, True
        try:
            yield
        finally:
            self.replaying = before


class TrainerReplay:
    """Repeats steps by making them with the trainer, while the run is parked.

    A repeated step calls no hook of the user, writes no fact and hits no breakpoint. The mark of
    each step is kept, so that a repetition with another result is noticed.
    """

    def __init__(self, trainer: Trainer, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._trainer, self._clock = trainer, clock

    @property
    def is_active(self) -> bool:
        """Whether steps are being repeated now, by `back` or by a certificate."""
        return self._trainer.replaying

    def obstacle(self) -> str | None:
        """Nothing: a session can repeat steps at every boundary."""
        return None

    def check(self, base: Snapshot | None, target: int) -> None:
        """Nothing: a session can continue from each of its snapshots."""

    def forget_before(self, step: int) -> None:
        """Drop the marks up to `step`."""
        self._trainer.state.keep_marks(lambda at: at > step)

    def restart(self) -> None:
        """Drop all marks: later steps do not follow from earlier ones."""
        self._trainer.state.marks.clear()

    def run(
        self, rewind: Rewind, base: Snapshot, target: int
    ) -> Generator[float, None, dict[str, Any]]:
        """Go back in slices that yield how much is done; returns where the run is and how it went.

        If it is cancelled, or a repeated step raises, the training returns to where it came from.
        If memory allowed no snapshot of that, it stays at the step it has reached.
        """
        trainer, state = self._trainer, self._trainer.state
        from_step = state.step
        here = None
        if base.step < target and rewind.keep_here(beside=base):
            here = rewind.ring.nearest(from_step)
        has_arrived = False
        rewind.show_phase(f"rewinding to step {target:,}")
        repeated = rewind.compare_repeated(base.step, target)
        try:
            with trainer.replay():
                state.restore(base)
                yield from self._repeat(repeated, base.step, target)
            has_arrived = True
            repeated.end()
        finally:
            if not has_arrived and here is not None:
                state.restore(here)
            else:
                rewind.arrived(from_step)
            # Last: a viewer that sees the end of the phase must find the final state.
            rewind.show_phase(None)
        answer = repeated.answer(target - base.step)
        if answer["exact"] is False:
            rewind.following = None  # it is known that later steps differ, too
        return {
            "step": state.step,
            "timeline": state.timeline,
            "epoch": state.epoch,
            "from_step": from_step,
            "replayed": target - base.step,
            **answer,
        }

    def _repeat(
        self, repeated: RepeatedSteps, start: int, target: int
    ) -> Generator[float, None, None]:
        """Repeat steps up to the target, comparing each with its mark."""
        reported = self._clock()
        for step in range(start + 1, target + 1):
            repeated.compare(step, self._trainer.advance().mark)
            if self._clock() - reported >= PROGRESS_EVERY_S:
                reported = self._clock()
                yield (step - start) / (target - start)


def _check_scheduler(parts: TrainingParts) -> None:
    from torch.optim.lr_scheduler import ReduceLROnPlateau

    if isinstance(parts.scheduler, ReduceLROnPlateau) and parts.val_loader is None:
        raise ConfigError(
            "ReduceLROnPlateau needs the validation loss; give the session a val_loader"
        )

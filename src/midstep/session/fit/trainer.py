"""Everything that moves at a step of a session, and nothing of facts, hooks or control.

A step is an optimizer step. What an epoch ends with (validation, a scheduler's epoch) belongs to
the start of the next step, so the boundary behind an epoch's last batch has all its samples
trained and nothing else done. `put` and so many `advance` repeat a training bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from midstep.core.errors import ConfigError, ControlError
from midstep.data.order.strategy import warn_user
from midstep.session.config import SessionConfig
from midstep.session.fit.batch_feed import BatchFeed
from midstep.session.fit.default_step import UserStep
from midstep.session.fit.evaluation import evaluate
from midstep.session.fit.optimizer_step import OptimizerStep, StepObserver
from midstep.session.state.epoch_progress import DataPosition, Progress
from midstep.session.state.snapshot import Snapshot, tree_bytes
from midstep.session.state.training_parts import ExtraState

if TYPE_CHECKING:
    import torch
    from torch import nn


@dataclass(kw_only=True)
class TrainingParts:
    """What the user gave a session to train."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    loss_fn: Callable[..., Any] | None
    train_loader: Any
    val_loader: Any = None
    test_loader: Any = None
    scheduler: Any = None
    scaler: Any = None
    training_step: UserStep | None = None
    validation_step: UserStep | None = None
    extra_state: ExtraState = field(default_factory=lambda: ExtraState(None))
    """The user's own state that moves with the training."""
    after_step: list[Callable[[nn.Module], object]] = field(default_factory=list)
    """Called after each step that changed the weights, repeated ones included."""


@dataclass(frozen=True, kw_only=True)
class StepOutcome:
    """One finished optimizer step."""

    step: int
    """Finished optimizer steps, this one counted."""
    epoch: int
    sample_ids: Sequence[Any]
    """In batch order; those of micro-batches one after the other."""
    loss: float
    """Mean over the micro-batches."""
    metrics: Mapping[str, Any] = field(default_factory=dict)
    """Scalars of the user's step, and `grad_norm` where it was clipped."""
    skipped: bool = False
    """Whether the weights were left alone, as the loss or a scaled gradient was not finite."""
    batches: Sequence[Any] = ()
    """References to the micro-batches, as they came from the loader."""


@dataclass(frozen=True, kw_only=True)
class EpochOutcome:
    """One finished epoch."""

    epoch: int
    step: int
    train_loss: float | None
    """Mean over its steps that were not skipped; None without any."""
    validation: Mapping[str, float] | None
    """`loss`, `accuracy` and others; None where none was due."""
    is_best: bool
    """Whether no validation loss before was lower."""
    skipped: int
    """Steps of it that were skipped."""


class Trainer:
    """Model, optimizer, order and counters: taken, put back, moved on by one step.

    Args:
        parts: what is trained.
        config: how.
        report: told once of each thing that is not exact, if that is not refused.

    >>> import torch
    >>> from torch import nn
    >>> model = nn.Linear(2, 1)
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> data = [(torch.ones(2), torch.ones(1))] * 4
    >>> loader = torch.utils.data.DataLoader(data, batch_size=2)
    >>> parts = TrainingParts(
    ...     model=model, optimizer=optimizer, loss_fn=nn.MSELoss(), train_loader=loader
    ... )
    >>> with Trainer(parts, SessionConfig()) as training:
    ...     kept = training.take()
    ...     first = training.advance().loss
    ...     training.restore(kept)
    ...     training.advance().loss == first, training.step, training.cursor
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
        self.step = self.timeline = 0
        self.total_steps: int | None = None
        self.total_epochs: int | None = None
        self.fingerprints: Mapping[str, Any] = {}
        """By which a resume knows the training again; goes into every snapshot."""
        self.replaying = False
        """Whether steps are repeated: then nobody is told of them."""
        self.interrupted: Callable[[], bool] = lambda: False
        """Asked between the batches of a validation; True gives it up."""
        self.progress = Progress()
        self._stepper = OptimizerStep(parts, config)
        self._feed = BatchFeed(parts.train_loader, config.order, report=report)
        self.order = self._feed.order
        self._place = DataPosition(self.order)
        self._in_step = False
        self.batches: list[Any] = []
        """References to the micro-batches of the step in progress, or of the last one."""
        _check_scheduler(parts)

    def __enter__(self) -> Trainer:
        self.order.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._leave_pass()
        self.order.__exit__()

    # -- where it stands --------------------------------------------------------------------------

    @property
    def epoch(self) -> int:
        """The epoch in progress."""
        return self.order.epoch

    @property
    def cursor(self) -> int:
        """Samples of this epoch that are trained on."""
        return self.order.cursor

    @property
    def device(self) -> torch.device:
        """Where batches go."""
        return self._stepper.device

    @property
    def scaler(self) -> Any:
        """The gradient scaler, the user's or one of ours; None without one."""
        return self._stepper.scaler

    @property
    def observer(self) -> StepObserver | None:
        """Who measures steps from inside; not told of repeated ones."""
        return self._stepper.observer

    @observer.setter
    def observer(self, observer: StepObserver | None) -> None:
        self._stepper.observer = observer

    @property
    def finished(self) -> bool:
        """Whether the total that was asked for is reached; False while none is set."""
        if self.total_steps is not None:
            return self.step >= self.total_steps
        return self.total_epochs is not None and self.epoch >= self.total_epochs

    def expected_steps(self) -> int | None:
        """How many steps there will be in all, as far as the loader knows its length."""
        if self.total_steps is not None or self.total_epochs is None:
            return self.total_steps
        per_epoch = self._steps_per_epoch()
        return None if per_epoch is None else self.total_epochs * per_epoch

    def expected_epochs(self) -> int | None:
        """How many epochs that is, the last one perhaps not whole; None where nobody can say."""
        if self.total_epochs is not None or self.total_steps is None:
            return self.total_epochs
        per_epoch = self._steps_per_epoch()
        return -(-self.total_steps // per_epoch) if per_epoch else None

    def _steps_per_epoch(self) -> int | None:
        batches = self._feed.batches_per_epoch
        return None if batches is None else -(-batches // self.config.accumulate_steps)

    # -- taken and put back -----------------------------------------------------------------------

    def take(self, *, to_host: bool = False) -> Snapshot:
        """The whole state, cloned; only at a boundary, where no batch was drawn ahead.

        Raises:
            ControlError: a step is in progress, as after one that raised.
        """
        if self._in_step:
            raise ControlError(
                f"step {self.step + 1} was begun and has not ended, so there is no state to go on "
                "from; load the last checkpoint instead"
            )
        return Snapshot.take(
            self._stateful(),
            step=self.step,
            epoch=self.epoch,
            cursor=self.cursor,
            timeline=self.timeline,
            generators=self._feed.generators,
            epoch_random=self.order.random_state(),
            config=self.config.describe(),
            fingerprints=self.fingerprints,
            to_host=to_host,
        )

    def state_bytes(self) -> int:
        """What the tensors of a snapshot would take."""
        present = (part for part in self._stateful().values() if part is not None)
        return tree_bytes([part.state_dict() for part in present])

    def witness(self) -> tuple[tuple[Any, ...], ...]:
        """What the steps of this epoch came to, cheaply: a repetition has the same."""
        order, progress = self.order, self.progress
        return (
            ("batch ids", order.epoch, order.cursor, order.checksum),
            ("loss", progress.loss_sum, progress.loss_count, progress.skipped),
        )

    def restore(self, snapshot: Snapshot) -> None:
        """Stand where the snapshot was taken: parts, generators, place in the data, counters."""
        self._leave_pass()
        snapshot.restore(self._stateful(), generators=self._feed.generators)
        self._place.go(snapshot.epoch_random)
        self.step, self.timeline = snapshot.step, snapshot.timeline
        self.parts.optimizer.zero_grad()
        if self.step:  # else a scheduler that steps first in this process warns of a wrong order
            self.parts.optimizer._opt_called = True  # type: ignore[attr-defined]

    def put_place(self, snapshot: Snapshot) -> None:
        """Generators and the place in the data alone; everything else stays as it is."""
        self._leave_pass()
        snapshot.random.restore(self._feed.generators)
        self._place.load_state_dict(snapshot.states["order"])
        self._place.go(snapshot.epoch_random)

    def begin_epoch_anew(self, epoch: int) -> None:
        """Stand before the first sample of an epoch, whatever was trained of it."""
        self._leave_pass()
        self.order.set_epoch(epoch + 1)  # naming the present one would keep its cursor
        self.order.set_epoch(epoch)
        self.progress.epoch_ended()

    def _stateful(self) -> dict[str, Any]:
        """By their names in a checkpoint."""
        parts = self.parts
        return {
            "model": parts.model,
            "optimizer": parts.optimizer,
            "scheduler": parts.scheduler,
            "scaler": self._stepper.scaler,
            "also": parts.extra_state or None,
            "progress": self.progress,
            "order": self._place,
        }

    # -- moving on --------------------------------------------------------------------------------

    def advance(self) -> StepOutcome:
        """One optimizer step, with whatever epoch end stands before it."""
        while self.epoch_is_over():
            self.end_epoch()
        window = self._stepper.window(quiet=self.replaying)
        ids: list[Any] = []
        self.batches = batches = []
        while window.count < self.config.accumulate_steps and self._feed.fetch():
            batch, its_ids = self._feed.take()
            ids.extend(its_ids)
            batches.append(batch)
            window.add(batch)
        made = window.close()
        if not made.skipped:
            for call in self.parts.after_step:
                call(self.parts.model)
        epoch = self.epoch
        self.order.commit()
        self.step += 1
        self._in_step = False
        self.progress.step_ended(made.loss, batches=len(batches), skipped=made.skipped)
        return StepOutcome(
            step=self.step,
            epoch=epoch,
            sample_ids=ids,
            loss=made.loss,
            metrics=made.metrics,
            skipped=made.skipped,
            batches=batches,
        )

    def epoch_is_over(self) -> bool:
        """Whether the epoch has no further batch; draws the next one, so only to go on at once."""
        self._in_step = True  # also if drawing raises
        self._in_step = self._feed.fetch()
        return not self._in_step

    @property
    def is_known_to_be_over(self) -> bool:
        """The same as far as the loader's length tells it, without drawing anything."""
        return self._feed.batches_per_epoch is not None and (
            self.progress.batches >= self._feed.batches_per_epoch
        )

    def end_epoch(self) -> EpochOutcome:
        """Validate if that is due, step the scheduler, and stand before the next epoch.

        Given up in the middle of its validation it has changed nothing.
        """
        epoch = self.epoch
        if not self.progress.batches:
            raise ConfigError("the training loader gave no batch; is its dataset empty?")
        due = self.parts.val_loader is not None and (
            (epoch + 1) % self.config.val_every_n_epochs == 0
        )
        validation = self.evaluate(self.parts.val_loader) if due else None
        self._stepper.epoch_ended(None if validation is None else validation["loss"])
        outcome = EpochOutcome(
            epoch=epoch,
            step=self.step,
            train_loss=self.progress.train_loss,
            validation=validation,
            is_best=self.progress.is_best(validation),
            skipped=self.progress.skipped,
        )
        self.progress.epoch_ended()
        self._leave_pass()
        self.order.set_epoch(epoch + 1)
        return outcome

    def evaluate(self, loader: Any) -> dict[str, float]:
        """Means over a loader, under a guard: the training does not notice."""
        return evaluate(
            self.parts.model,
            loader,
            self._stepper.evaluation,
            device=self.device,
            autocast=self._stepper.autocast,
            interrupted=self.interrupted,
        )

    def _leave_pass(self) -> None:
        self._feed.reset()
        self._in_step = False

    @contextmanager
    def replay(self) -> Iterator[None]:
        """Steps inside the block are repeated ones: observers are not told."""
        before, self.replaying = self.replaying, True
        try:
            yield
        finally:
            self.replaying = before


def _check_scheduler(parts: TrainingParts) -> None:
    from torch.optim.lr_scheduler import ReduceLROnPlateau

    if isinstance(parts.scheduler, ReduceLROnPlateau) and parts.val_loader is None:
        raise ConfigError(
            "ReduceLROnPlateau needs the validation loss; give the session a val_loader"
        )

"""`StepReporter`: scalars and batch of a finished step, for both drivers; names of scalars."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from midstep.core.media.given_values import own_value
from midstep.core.moments import Moment
from midstep.data.batch_structure import count_samples, join, labels_of
from midstep.facts import FactsReader
from midstep.facts.format.step_frames import IDS_CHECKSUM, WEIGHTS_CHECKSUM
from midstep.session.state.epoch_progress import EpochMeter

if TYPE_CHECKING:
    from pathlib import Path

    from midstep.control.capture.sample_results import Results
    from midstep.session.metrics.runtime_metrics import RuntimeMetrics
    from midstep.session.run import Run
    from midstep.session.state.training_state import StepMark


CANONICAL: Mapping[str, str] = {
    "acc": "accuracy",
    "top1": "accuracy",
    "val_acc": "val_accuracy",
    "val_top1": "val_accuracy",
    "test_acc": "test_accuracy",
    "test_top1": "test_accuracy",
    "learning_rate": "lr",
    "gradient_norm": "grad_norm",
    "tokens_per_sec": "throughput",
}
"""Names that loops use, and the name that the facts use instead."""


def fold_names(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """`values` under canonical names; a value that already has the canonical name wins.

    >>> fold_names({"acc": 0.5, "loss": 1.0})
    {'accuracy': 0.5, 'loss': 1.0}
    """
    if CANONICAL.keys().isdisjoint(values):
        return values
    return {CANONICAL.get(name, name): value for name, value in values.items()} | {
        name: value for name, value in values.items() if name not in CANONICAL
    }


COMMANDS_RECALLED = 10_000


def own_values(values: Mapping[str, Any], *, arrays: bool = True) -> dict[str, Any]:
    """`values` under canonical names, free of autograd graphs and of later in-place changes.

    On the CPU a tensor of one element becomes a number. On another device it is cloned there, so
    that nothing waits for the device. Pictures, texts, lists and tables are copied. Anything else
    is passed on; the facts note that it cannot be recorded.

    Args:
        values: what the loop logs.
        arrays: whether an array of several elements is meant to be shown. What a training step
            returns may hold the output of the model, which would be copied in every step.
    """
    return {
        name: _own_value(name, value, arrays=arrays) for name, value in fold_names(values).items()
    }


def _own_value(name: str, value: Any, *, arrays: bool) -> Any:
    # First what nearly every step logs: a number, or a loss on the CPU.
    if type(value) is float:
        return value
    if hasattr(value, "detach") and value.numel() == 1 and value.device.type == "cpu":
        return value.item()
    return own_value(name, value, arrays=arrays)


def earlier_commands(directory: Path) -> list[dict[str, Any]]:
    """Facts of the commands of earlier attempts; a client may retry one of them by its id."""
    commands = [
        event
        for event in FactsReader(directory).events()
        if event["moment"] == Moment.INTERVENTION and event.get("kind") == "command"
    ]
    return commands[-COMMANDS_RECALLED:]


def _labels(batches: Sequence[Any]) -> Any:
    return labels_of(join(batches))


def _samples_of(batches: Sequence[Any]) -> int:
    """The samples of a batch without ids; 0 if unknown, as of several micro-batches."""
    return count_samples(batches[0]) or 0 if len(batches) == 1 else 0


class StepReporter:
    """Reports finished steps and epochs: to the boundary, to the captures, and to the facts.

    Args:
        run: whose controller and facts receive them.
        metrics: measures the steps.
    """

    def __init__(self, run: Run, metrics: RuntimeMetrics) -> None:
        self._run, self._metrics = run, metrics
        self._boundary, self._captures = run.controller.boundary, run.controller.captures
        self._meter = EpochMeter()
        # Names that the user logs: the user's value of a scalar goes before the measured one.
        self._user_names: set[str] = set()
        self._described: tuple[float | None, int, int] | None = None
        self._late: deque[tuple[int, Any]] = deque()

    def report(
        self,
        *,
        step: int,
        epoch: int,
        loss: Any,
        scalars: Mapping[str, Any],
        batches: Sequence[Any],
        sample_ids: Sequence[Any] | None,
        results: Results | str | None = None,
        mark: StepMark | None = None,
    ) -> dict[str, Any]:
        """Report a step before the boundary counts it; returns its row of the facts.

        Args:
            step: finished steps, this one included.
            epoch: the epoch it belongs to.
            loss: a number, or a tensor of one element.
            scalars: of the user's step, owned by us, see `own_values`.
            batches: references to its micro-batches, or to the first of them.
            sample_ids: in batch order; None if they are unknown.
            results: losses and predictions of its samples, while they are in view.
            mark: its learning rate, and the checksums that are recorded with it.
        """
        diagnoser = self._run.diagnoser
        if diagnoser is not None and diagnoser.held.is_on:
            diagnoser.held.note_batches(batches, sample_ids)
        samples = 0 if sample_ids is None else len(sample_ids)
        self._meter.add(samples)
        if not self._user_names.issuperset(scalars):
            self._user_names.update(scalars)
        values = self._measured(step, samples)
        if mark is not None:
            self._add_mark(step, mark, values)
        values.update(scalars)
        self._boundary.note_samples(samples or _samples_of(batches))
        self._boundary.log(values)
        self._describe(epoch)
        if step + 1 == self._captures.last_step:
            self._run.stops.before_last_step()
        if batches:
            self._capture(batches, loss, sample_ids, results)
        return values

    def _add_mark(self, step: int, mark: StepMark, row: dict[str, Any]) -> None:
        """Put the mark into the row. A checksum that arrives late is logged under its own step."""
        if mark.lr is not None:
            row["lr"] = mark.lr  # the rate that was used; by now a scheduler has run
        if mark.ids is not None:
            row[IDS_CHECKSUM] = float(mark.ids)
        if mark.weights is not None:
            if type(mark.weights) is int:
                row[WEIGHTS_CHECKSUM] = float(mark.weights)
            else:
                self._late.append((step, mark.weights))
        while self._late and self._late[0][1].is_ready():
            self._log_late_checksum()

    def _log_late_checksum(self) -> None:
        step, checksum = self._late.popleft()
        self._run.facts.log_values(step, {WEIGHTS_CHECKSUM: float(checksum.value)})

    def close(self) -> None:
        """Record the checksums that a device has not sent yet, and end the measuring."""
        while self._late:
            self._log_late_checksum()
        self._metrics.close()

    def _measured(self, step: int, samples: int) -> dict[str, Any]:
        """Runtime metrics of this step. Values that arrive late are logged under their own step."""
        metrics = self._metrics
        values = {} if metrics.is_untimed else metrics.step_ended(step=step, samples=samples)
        for at, arrived in metrics.arrived() if metrics.in_transfer else ():
            measured = {k: value for k, value in arrived.items() if k not in self._user_names}
            if at == step:
                values.update(measured)
            else:
                self._run.facts.log_values(at, measured)
        return values

    def _describe(self, epoch: int) -> None:
        """Show learning rate and epoch if they changed; a new timeline shows them again."""
        described = (self._metrics.rate(), epoch, self._run.facts.timeline)
        if described != self._described:
            self._described = described
            self._run.controller.status.describe(lr=described[0], epoch=epoch)

    def _capture(
        self,
        batches: Sequence[Any],
        loss: Any,
        sample_ids: Sequence[Any] | None,
        results: Results | str | None,
    ) -> None:
        """Pass the batch on. Micro-batches are joined only when the batch is copied."""
        batch = batches[0] if len(batches) == 1 else partial(join, batches)
        labels = partial(_labels, batches)
        # `kept`: no code of the user runs before the boundary, so the clone can wait until then.
        self._captures.capture(
            batch, loss, labels=labels, sample_ids=sample_ids, results=results, kept=True
        )

    def show_repeated(self, loss: Any) -> None:
        """Show loss and learning rate of a repeated step; its record exists already."""
        self._boundary.show_loss(loss)
        self._run.controller.status.describe(lr=self._metrics.rate())

    def hold_failed_batch(
        self,
        batches: Sequence[Any],
        loss: Any = None,
        sample_ids: Sequence[Any] | None = None,
        results: Results | str | None = None,
    ) -> None:
        """Keep the batch of a step that raised, for viewers of a run that parks at the error."""
        if batches:
            batch = join(batches)
            self._captures.hold_failed_batch(
                batch, loss, labels=labels_of(batch), sample_ids=sample_ids, results=results
            )

    # -- epochs -----------------------------------------------------------------------------------

    def epoch_began(self) -> None:
        """Measure the time of an epoch from here."""
        self._meter.begin()

    def epoch_cost(self) -> dict[str, float | None]:
        """Time, throughput and peak memory of the running epoch so far."""
        return self._meter.end()

    def epoch_ended(
        self,
        *,
        epoch: int,
        step: int,
        train_loss: float | None,
        val_loss: float | None,
        metrics: Mapping[str, Any],
        cost: Mapping[str, Any],
        **fields: Any,
    ) -> None:
        """Record an epoch; the next one is measured from here."""
        self._run.event(
            Moment.EPOCH_END,
            epoch=epoch,
            step=step,
            split="train",
            train_loss=train_loss,
            val_loss=val_loss,
            **fields,
            metrics=metrics,
            **cost,
        )
        self._meter.begin()

"""The demo: a 784-64-784 autoencoder on digits, trained under a session.

It is written as a user would write a training: a step function, a dataclass of settings, and a
session that runs the steps.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

from midstep.control.capture.deferred_columns import DeferredColumns
from midstep.core.moments import Moment
from midstep.data.order.samplers import EpochSeededRandomSampler
from midstep.data.sources.digits import Digits, load_digits
from midstep.data.sources.mnist import load_mnist
from midstep.loops.bcl_config import AutoencoderConfig
from midstep.models.linear_autoencoder import LinearAutoencoder, LinearAutoencoderConfig
from midstep.session import Run, Session, SessionConfig

if TYPE_CHECKING:
    from torch import nn

    from midstep.control import DebugController
    from midstep.session.fit.fit_loop import StepRecord


Measure = Callable[[Tensor, Tensor], Mapping[str, Tensor]]
"""Computes columns from weights [D, I] and activations before the ReLU [B, D]."""


def hidden_units(
    model: LinearAutoencoder, images: Tensor, more_columns: Measure | None = None
) -> DeferredColumns:
    """Columns per hidden unit: activation over a batch, norms of its row of weights, and more.

    Args:
        model: the model after the step; it is only read.
        images: the batch, [B, …]. It must not change later: it is held, not cloned.
        more_columns: computes columns that come first.
    """
    encoder = model.encoder
    weight, gradient = encoder.weight.detach(), encoder.weight.grad
    # Cloning three small tensors is cheap; the columns are computed only when a viewer reads them.
    return DeferredColumns(
        partial(_measure_units, images.detach(), more_columns),
        weight=weight,
        bias=encoder.bias.detach(),
        grad_norm=weight.new_zeros(len(weight)) if gradient is None else gradient.norm(dim=1),
    )


def _measure_units(
    images: Tensor, more_columns: Measure | None, weight: Tensor, bias: Tensor, grad_norm: Tensor
) -> dict[str, Tensor]:
    preactivations = functional.linear(images.flatten(1), weight, bias)
    active = preactivations.relu()
    return {
        **({} if more_columns is None else more_columns(weight, preactivations)),
        "mean_activation": active.mean(dim=0),
        "fraction_active": (active > 0).float().mean(dim=0),
        "grad_norm": grad_norm,
        "weight_norm": weight.norm(dim=1),
    }


CHECKPOINT_EVERY = 1_000
"""Steps between two checkpoints."""
CHECKPOINTS_KEPT = 4
"""How many checkpoints are kept, 1.5 MB each."""
LOADERS: Mapping[str, Callable[[Literal["train", "val"]], Digits]] = MappingProxyType(
    {"digits": load_digits, "mnist": load_mnist}
)


@dataclass(frozen=True, kw_only=True)
class TrainingResult:
    """The end of a training."""

    steps: int
    """Finished optimizer steps."""
    stopped: bool
    """Whether it was stopped before the last step."""
    loss: float | None
    """Mean squared error of the last batch; None if no step was made, or a rewind removed it."""
    validation_loss: float
    """Mean squared error over the validation digits at the end."""
    duration_s: float
    """Time in the loop, pauses included."""


class AutoencoderTraining:
    """Model, optimizer and data of one training.

    Args:
        config: the settings.
        digits: images for training and validation; those that the settings name if left out.

    >>> demo = AutoencoderTraining(AutoencoderConfig(steps=3))
    >>> len(demo.digits)
    4500
    """

    def __init__(
        self, config: AutoencoderConfig, digits: tuple[Digits, Digits] | None = None
    ) -> None:
        self.config = config
        load = LOADERS[config.data]
        self.digits, self.validation = digits or (load("train"), load("val"))
        inputs = self.digits.images[0].numel()
        self.model = LinearAutoencoder(
            LinearAutoencoderConfig(inputs=inputs, hidden=config.hidden, seed=config.seed)
        )
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=config.learning_rate)
        self._batch: Mapping[str, torch.Tensor] = {}
        self._losses: torch.Tensor | None = None
        self._last: tuple[int, float] | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that the run's header records."""
        return {"recipe": "demo", **asdict(self.config)}

    # -- a step -----------------------------------------------------------------------------------

    def training_step(self, model: nn.Module, batch: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """The loss of a batch: the mean over its digits."""
        losses = squared_error(model(batch["images"]), batch["images"])
        self._batch, self._losses = batch, losses.detach()
        return losses.mean()

    @torch.no_grad()
    def validation_step(
        self, model: nn.Module, batch: Mapping[str, torch.Tensor]
    ) -> dict[str, torch.Tensor]:
        """Mean squared and mean absolute error over a batch."""
        images = batch["images"]
        pixels = model(images)
        absolute = (pixels - images.flatten(1)).abs().mean()
        return {"loss": squared_error(pixels, images).mean(), "l1": absolute}

    def validate(self) -> dict[str, float]:
        """The same over the validation digits, with the present weights."""
        metrics = self.validation_step(self.model, as_batch(self.validation))
        return {name: value.item() for name, value in metrics.items()}

    def step_ended(self, session: Session, record: StepRecord) -> None:
        """Capture what the session does not know: losses of digits, norm of the gradient."""
        batch = self._batch
        session.controller.capture_batch(
            batch["images"],
            record.loss,
            labels=batch["labels"],
            sample_ids=batch["ids"],
            losses=self._losses,
        )
        weights = self.model.parameters()
        gradients = [weight.grad for weight in weights if weight.grad is not None]
        session.log(grad_norm=torch.nn.utils.get_total_norm(gradients))
        self._last = (record.step, record.loss)
        if session.controller.captures.wants(*self.feature_keys):
            self.capture_features(session.controller, batch["images"])

    feature_keys: tuple[str, ...] = ("features",)
    """Keys of the step data that `capture_features` pushes."""

    def capture_features(self, control: DebugController, images: torch.Tensor) -> None:
        """Capture the hidden units, while a viewer shows them."""
        control.capture_step_data("features", partial(hidden_units, self.model, images))

    # -- all steps --------------------------------------------------------------------------------

    def session(self, run: Run) -> Session:
        """The session that trains in `run`."""
        config = self.config
        session = Session(
            self.model,
            self.optimizer,
            None,
            DataLoader(
                DigitsDataset(self.digits),
                batch_size=config.batch_size,
                sampler=EpochSeededRandomSampler(self.digits, config.seed),
                collate_fn=identity_collate,
            ),
            [as_batch(self.validation)],
            config=SessionConfig(
                # An epoch takes a tenth of a second, and a demo is rarely resumed, so few
                # checkpoints are enough.
                checkpoint_epochs=False,
                deterministic_pauses=False,
                checkpoint_every_steps=CHECKPOINT_EVERY,
                checkpoint_keep=CHECKPOINTS_KEPT,
            ),
            extra_state=self.extra_state(),
            run=run,
        )
        session.training_step(self.training_step)
        session.validation_step(self.validation_step)
        self.install(session)
        return session

    def install(self, session: Session) -> None:
        """Add what the training does after each step."""
        session.on_step(partial(self.step_ended, session))

    def extra_state(self) -> dict[str, Any]:
        """State of the training besides model and optimizer."""
        return {}

    def train(self, run: Run) -> TrainingResult:
        """Train to the last step, or until the run is stopped."""
        start = time.monotonic()
        with self.session(run) as session:
            self.begin(session)
            session.fit(steps=self.config.steps)
            training, stopped = session.trainer, run.controller.boundary.is_stopping
            validation = self.validate()
            # In the middle of an epoch (`cursor` above 0) the session has not validated yet.
            if training.state.cursor and not stopped:
                _record_validation(run, training.epoch, training.step, validation)
            last_step, last_loss = self._last or (0, None)
            return TrainingResult(
                steps=training.step,
                stopped=stopped,
                loss=last_loss if last_step == training.step else None,
                validation_loss=validation["loss"],
                duration_s=time.monotonic() - start,
            )

    def begin(self, session: Session) -> None:
        """Called before the first step: offers the step data that is pushed on request."""
        for key in self.feature_keys:
            session.controller.captures.data.offer(key)

    # -- with a run -------------------------------------------------------------------------------

    def open_run(self, *, name: str, **where: Any) -> Run:
        """A run with these settings in its header; `where` has the folder, as `Run` takes it."""
        return Run(
            name=name,
            config=self.settings,
            seed=self.config.seed,
            total_steps=self.config.steps,
            model=self.model,
            **where,
        )

    def run_to_end(self, run: Run) -> TrainingResult:
        """Train in `run`, and record how it ended."""
        result = self.train(run)
        end = "stopped" if result.stopped else "finished"
        run.finish(end, train_loss=result.loss, val_loss=result.validation_loss)
        return result


class DigitsDataset(Dataset[Mapping[str, torch.Tensor]]):
    """Digits as a dataset whose loader reads whole batches, much faster than single samples."""

    def __init__(self, digits: Digits) -> None:
        self._digits = digits

    def __len__(self) -> int:
        return len(self._digits)

    def __getitem__(self, row: int) -> Mapping[str, torch.Tensor]:
        return {name: column[row] for name, column in as_batch(self._digits).items()}

    def __getitems__(self, rows: list[int]) -> Mapping[str, torch.Tensor]:
        chosen = torch.from_numpy(np.array(rows))  # a third of the time of torch.tensor(rows)
        columns = as_batch(self._digits)
        return {name: column.index_select(0, chosen) for name, column in columns.items()}


def as_batch(digits: Digits) -> dict[str, torch.Tensor]:
    """Digits as one batch."""
    return {"images": digits.images, "labels": digits.labels, "ids": digits.ids}


def identity_collate(batch: Any) -> Any:
    """The batch itself: `__getitems__` returns whole batches, so nothing is left to collate."""
    return batch


def _record_validation(run: Run, epoch: int, step: int, metrics: Mapping[str, float]) -> None:
    """Record the validation at the end of a training that ends in the middle of an epoch."""
    run.log_finished(**{f"val_{name}": value for name, value in metrics.items()})
    run.event(
        Moment.VALIDATION_END,
        epoch=epoch,
        step=step,
        split="val",
        val_loss=metrics["loss"],
        metrics={"l1": metrics["l1"]},
    )


def squared_error(pixels: torch.Tensor, images: torch.Tensor) -> torch.Tensor:
    """Mean squared error of each sample, [B]."""
    return (pixels - images.flatten(1)).square().mean(dim=1)

"""The demo: a 784-64-784 autoencoder on real digits, stopped and watched like any loop.

It is written as a user would write a loop of their own: a step function, and two call sites,
`capture_batch` after `backward` and `wait_if_paused` after `optimizer.step`.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import torch

from midstep.core.errors import ConfigError
from midstep.core.moments import Moment
from midstep.data.order import Order
from midstep.data.sources.digits import PIXELS, Digits, load_digits
from midstep.data.sources.mnist import load_mnist
from midstep.loops.inside import Inside
from midstep.models.autoencoder import LinearAutoencoder, LinearAutoencoderConfig
from midstep.session.hooks import LayerNorms
from midstep.session.meter import EpochMeter

if TYPE_CHECKING:
    from midstep.session import Run
    from midstep.session.hooks import Hook

__all__ = ["DataName", "Demo", "DemoConfig", "DemoResult"]

MAX_STEPS = 100_000_000
DataName = Literal["digits", "mnist"]
LOADERS: Mapping[str, Callable[[Literal["train", "val"]], Digits]] = MappingProxyType(
    {"digits": load_digits, "mnist": load_mnist}
)


@dataclass(frozen=True, kw_only=True)
class DemoConfig:
    """Settings of the demo.

    >>> DemoConfig(steps=100).batch_size
    128
    """

    steps: int = 10_000
    """Optimizer steps in all; about half a minute on two cores."""
    batch_size: int = 128
    """Digits per step; the last batch of an epoch may be smaller."""
    learning_rate: float = 1e-3
    """Of Adam."""
    hidden: int = 64
    """Features between encoder and decoder."""
    seed: int = 0
    """Of the initial weights and of the order; each has a stream of its own."""
    data: DataName = "digits"
    """5,000 digits, or mnist: 70,000, where they were fetched."""

    def __post_init__(self) -> None:
        if not 1 <= self.steps <= MAX_STEPS:
            raise ConfigError(f"steps must lie between 1 and {MAX_STEPS:,}, got {self.steps}")
        for name in ("batch_size", "hidden"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.data not in LOADERS:
            raise ConfigError(f"data must be one of {', '.join(LOADERS)}; got {self.data!r}")
        if not (math.isfinite(self.learning_rate) and self.learning_rate > 0):
            raise ConfigError(f"learning_rate must be above 0, got {self.learning_rate}")


@dataclass(frozen=True, kw_only=True)
class DemoResult:
    """How a demo ended."""

    steps: int
    """Finished optimizer steps."""
    stopped: bool
    """Whether somebody stopped it before the last step."""
    loss: float | None
    """Mean squared error of the last batch; None when no step was made."""
    validation_loss: float
    """The same over the validation digits at the end."""
    duration_s: float
    """Time in the loop, pauses included."""


class Demo:
    """Model, optimizer and data of one demo.

    >>> demo = Demo(DemoConfig(steps=3))
    >>> len(demo.digits)
    4500
    """

    def __init__(self, config: DemoConfig) -> None:
        self.config = config
        load = LOADERS[config.data]
        self.digits, self.validation = load("train"), load("val")
        self.model = LinearAutoencoder(
            LinearAutoencoderConfig(inputs=PIXELS, hidden=config.hidden, seed=config.seed)
        )
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=config.learning_rate)
        self.steps_per_epoch = math.ceil(len(self.digits) / config.batch_size)
        self.epochs = math.ceil(config.steps / self.steps_per_epoch)

    @property
    def settings(self) -> dict[str, Any]:
        """What the run's header records."""
        return {"recipe": "demo", **asdict(self.config)}

    def batches(self, epoch: int) -> Iterator[Digits]:
        """The batches of one epoch, in an order that depends on seed and epoch alone."""
        order = Order(len(self.digits), self.config.seed, epoch)
        for start in range(0, len(order), self.config.batch_size):
            rows = order.ids(start, min(start + self.config.batch_size, len(order)))
            yield Digits(
                images=self.digits.images[rows],
                labels=self.digits.labels[rows],
                ids=self.digits.ids[rows],
            )

    def gradients(self, batch: Digits) -> torch.Tensor:
        """Forward and backward of their mean; gives the loss of each sample, [B]."""
        self.optimizer.zero_grad(set_to_none=True)
        losses = squared_error(self.model(batch.images), batch.images)
        torch.autograd.backward(losses.mean())
        return losses.detach()

    @torch.no_grad()
    def validate(self) -> dict[str, float]:
        """Mean squared and mean absolute error over the validation digits."""
        images = self.validation.images
        pixels = self.model(images)
        absolute = (pixels - images.flatten(1)).abs().mean()
        return {"loss": squared_error(pixels, images).mean().item(), "l1": absolute.item()}

    def hooks(self) -> list[Hook]:
        """What is looked at inside the model while somebody watches."""
        return [LayerNorms()]

    def train(self, run: Run) -> DemoResult:
        """Train to the last step, or until the run is stopped."""
        began = time.monotonic()
        run.show(*self.hooks(), model=self.model, optimizer=self.optimizer)
        run.controller.describe(lr=self.config.learning_rate, total_epochs=self.epochs, epoch=0)
        finished, loss = 0, None
        going_on, meter = run.controller.enter(), EpochMeter()
        for epoch in range(self.epochs):
            if not going_on:
                break
            run.controller.describe(epoch=epoch, phase=None)
            losses = []
            meter.begin()
            for batch in itertools.islice(self.batches(epoch), self.config.steps - finished):
                loss = self._step(run, batch, finished)
                losses.append(loss)
                meter.add(len(batch.ids))
                finished += 1
                going_on = run.controller.wait_if_paused()
                if not going_on:
                    break
            else:
                self._end_epoch(run, epoch, finished, losses, meter)
        return DemoResult(
            steps=finished,
            stopped=not going_on,
            loss=loss,
            validation_loss=self.validate()["loss"],
            duration_s=time.monotonic() - began,
        )

    def _step(self, run: Run, batch: Digits, index: int) -> float:
        """One optimizer step up to its boundary; gives its loss."""
        control = run.controller
        losses = self.gradients(batch)
        loss = losses.mean()
        control.capture_batch(
            batch.images, loss, index, labels=batch.labels, sample_ids=batch.ids, losses=losses
        )
        run.log(grad_norm=torch.nn.utils.get_total_norm(self._gradients()))
        inside = Inside(self.model, batch.images) if control.wants_data else None
        self.optimizer.step()
        if inside is not None:
            inside.push(control)
        return loss.item()

    def _gradients(self) -> list[torch.Tensor]:
        return [weight.grad for weight in self.model.parameters() if weight.grad is not None]

    def _end_epoch(
        self, run: Run, epoch: int, finished: int, losses: list[float], meter: EpochMeter
    ) -> None:
        cost = meter.end()
        run.controller.describe(phase="in validation")
        validation = self.validate()
        run.log_finished(val_loss=validation["loss"])
        run.event(
            Moment.VALIDATION_END,
            epoch=epoch,
            step=finished,
            split="val",
            val_loss=validation["loss"],
            metrics={"l1": validation["l1"]},
        )
        run.event(
            Moment.EPOCH_END,
            epoch=epoch,
            step=finished,
            split="train",
            train_loss=math.fsum(losses) / len(losses),
            **cost,
        )


def squared_error(pixels: torch.Tensor, images: torch.Tensor) -> torch.Tensor:
    """Mean squared error of each sample, [B]."""
    return (pixels - images.flatten(1)).square().mean(dim=1)

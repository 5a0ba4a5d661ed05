"""The loop `bcl`: the linear autoencoder with competitive learning, from composed settings.

It is the recipe `demo` on the data of the config tree.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import torch

from midstep.core.errors import ConfigError
from midstep.data.sources.digits import Digits
from midstep.loops.bcl import BclTraining
from midstep.loops.bcl_config import BclConfig
from midstep.loops.composed.autoencoder_facts import SHOWN, is_recorded, shown_pairs
from midstep.loops.composed.loop_parts import Batch, LoopParts
from midstep.loops.composed.loop_training import train_loop
from midstep.loops.config.composed_config import as_composed
from midstep.loops.config.loop_settings import BclSettings
from midstep.loops.config.trainer_config import choose_device

if TYPE_CHECKING:
    from torch import Tensor, nn

    from midstep.control import DebugController
    from midstep.data.sources.source_data import SampleDataset, SourceData
    from midstep.loops.config.train_config import TrainConfig
    from midstep.session import Session
    from midstep.session.fit.fit_loop import EpochRecord, StepRecord


def train(cfg: Any, controller: DebugController | None = None) -> dict[str, Any]:
    """Train with competing features; returns `best_val_loss`, `test_loss`, `run_dir` and more."""
    return train_loop(as_composed(cfg, loop="bcl"), controller)


def build(config: TrainConfig, data: SourceData) -> LoopParts:
    """Model, competition and optimizer of the recipe `demo` on the images of a source."""
    if data.spec.kind != "image":
        raise ConfigError(
            f"loop=bcl needs images, but data={config.data.name} has {data.spec.kind}; "
            "use data=digits or data=mnist5k"
        )
    device = choose_device(config.phase1.trainer.device)
    images, validation = (as_digits(data.splits[name], device) for name in ("train", "val"))
    training = ComposedBcl(bcl_config(config, len(images)), (images, validation))
    settings = cast("BclSettings", config.loop)
    return LoopParts(
        model=training.model,
        optimizer=training.optimizer,
        training_step=training.training_step,
        validation_step=training.validation_step,
        extra_state=training.extra_state(),
        families=("losses", "metrics", "latency", "recon"),
        total_steps=settings.steps,
        begin=training.begin,
    )


def bcl_config(config: TrainConfig, samples: int) -> BclConfig:
    """The settings of the recipe `demo` that composed settings mean.

    Args:
        config: the composed settings, with a batch size in numbers.
        samples: images for training.

    >>> from midstep.loops import compose
    >>> bcl_config(compose(["loop=bcl", "loop.condition=rescue"]).config, 1_280).condition
    'rescue'
    """
    settings, trainer = cast("BclSettings", config.loop), config.phase1.trainer
    batch_size = int(config.data.batch_size)
    per_epoch = -(-samples // (batch_size * trainer.accumulate_steps))
    return BclConfig(
        condition=settings.condition,
        steps=settings.steps or trainer.epochs * per_epoch,
        batch_size=batch_size,
        hidden=settings.hidden,
        lr=trainer.lr,
        seed=trainer.seed,
        neighborhood_k=settings.neighborhood_k,
        temperature=settings.temperature,
        som_lr=settings.som_lr,
        recompute_every=settings.recompute_every,
        rescue_k=settings.rescue_k,
        health_every=settings.health_every,
    )


class ComposedBcl(BclTraining):
    """The recipe's training with batches of a data source."""

    def training_step(self, model: nn.Module, batch: Batch) -> Tensor:
        """The loss of a batch: the mean over its images."""
        return super().training_step(model, _named(batch))

    def validation_step(self, model: nn.Module, batch: Batch) -> dict[str, Tensor]:
        """Mean squared and mean absolute error over a batch."""
        return super().validation_step(model, _named(batch))

    def step_ended(self, session: Session, record: StepRecord) -> None:
        """Capture what the session does not know, with the ids of the samples."""
        self._batch = {**self._batch, "ids": torch.tensor(record.sample_ids)}
        super().step_ended(session, record)

    def begin(self, session: Session) -> None:
        """Add the hooks of the recipe to a session."""
        self.install(session)
        super().begin(session)
        session.on_epoch(self._epoch_ended)

    @torch.no_grad()
    def _epoch_ended(self, record: EpochRecord) -> dict[str, Any]:
        """The first validation images and their reconstructions, for the plot family `recon`."""
        epochs = max(1, self.config.steps * self.config.batch_size // len(self.digits))
        if not is_recorded(record.epoch, epochs):
            return {}
        images = self.validation.images[:SHOWN]
        rebuilt = self.model(images).reshape(images.shape)
        return {"reconstructions": shown_pairs("image", {"image": images}, {"image": rebuilt})}


def as_digits(split: SampleDataset, device: str) -> Digits:
    """All images of a split at once, on the device of the model."""
    rows = list(range(len(split)))
    batch = split.__getitems__(rows)
    labels = batch.get("label", torch.zeros(len(rows), dtype=torch.int64))
    return Digits(images=batch["image"].to(device), labels=labels, ids=torch.tensor(rows))


def _named(batch: Batch) -> Mapping[str, Tensor]:
    """A batch by the names of the recipe."""
    images = batch["image"]
    labels = batch["label"] if "label" in batch else images.new_zeros(len(images))
    return {"images": images, "labels": labels}

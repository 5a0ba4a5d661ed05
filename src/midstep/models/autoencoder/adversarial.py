"""Adversarial loss: a discriminator tells samples from their reconstructions.

Two players train in turn. The discriminator minimises `discriminator_loss`, whose reconstructions
are detached. The autoencoder minimises `generator_loss`, which leaves no gradient in the
discriminator.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import nn

from midstep.core.sample_spec import SampleSpec
from midstep.models.autoencoder.autoencoder import Autoencoder
from midstep.models.autoencoder.part_bases import Batch
from midstep.models.autoencoder.part_configs import AdversarialKind, DiscriminatorConfig
from midstep.models.autoencoder.parts.discriminator_trunk import DiscriminatorTrunk
from midstep.models.autoencoder.sample_layout import real_tokens


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """What a discriminator says about samples."""

    logits: torch.Tensor
    """Above 0 for what it takes for real [B]."""
    features: list[torch.Tensor]
    """Features after each layer of the trunk."""


class Discriminator(nn.Module):
    """Tells samples of a dataset from reconstructions.

    >>> spec = SampleSpec(kind="vector", features=3)
    >>> Discriminator(DiscriminatorConfig(), spec)({"x": torch.zeros(2, 3)}).logits.shape
    torch.Size([2])
    """

    def __init__(self, cfg: DiscriminatorConfig, spec: SampleSpec) -> None:
        super().__init__()
        self.spec = spec
        self.trunk = DiscriminatorTrunk(spec, cfg.hidden_dims, cfg.id_embedding, is_spectral=True)
        self.head = nn.Linear(self.trunk.width, 1)

    def forward(self, sample: Batch, mask: torch.Tensor | None = None) -> Judgement:
        """Judge a batch, or a reconstruction with the real tokens `mask` of its batch."""
        features = self.trunk(sample, self.mask_of(sample) if mask is None else mask)
        return Judgement(logits=self.head(features[-1]).squeeze(-1).float(), features=features)

    def mask_of(self, batch: Batch) -> torch.Tensor | None:
        """Real tokens of a batch of events; None for other samples."""
        return real_tokens(batch) if self.spec.kind == "events" else None


class AdversarialAutoencoder(Autoencoder):
    """An autoencoder with its discriminator, which `forward` does not use.

    Args:
        autoencoder: gives its parts; their names stay, so weights load into either class.
        discriminator: judges samples and reconstructions.
    """

    def __init__(self, autoencoder: Autoencoder, discriminator: Discriminator) -> None:
        super().__init__(autoencoder.encoder, autoencoder.latent_space, autoencoder.decoder)
        self.discriminator = discriminator


def discriminator_loss(
    discriminator: Discriminator,
    reconstruction: Batch,
    batch: Batch,
    *,
    kind: AdversarialKind = "hinge",
) -> dict[str, torch.Tensor]:
    """What the discriminator minimises: `loss`, and its mean logits `real_score`, `fake_score`."""
    mask = discriminator.mask_of(batch)
    detached = {name: value.detach() for name, value in reconstruction.items()}
    real, fake = discriminator(batch, mask).logits, discriminator(detached, mask).logits
    if kind == "hinge":
        loss = F.relu(1 - real).mean() + F.relu(1 + fake).mean()
    else:
        loss = F.softplus(-real).mean() + F.softplus(fake).mean()
    return {
        "loss": loss,
        "real_score": real.detach().mean(),
        "fake_score": fake.detach().mean(),
    }


def generator_loss(
    discriminator: Discriminator,
    reconstruction: Batch,
    batch: Batch,
    *,
    kind: AdversarialKind = "hinge",
    feature_weight: float = 1.0,
) -> dict[str, torch.Tensor]:
    """What the autoencoder minimises besides its reconstruction: `loss` and its two parts.

    `adversarial` falls as the discriminator takes reconstructions for real. `feature_matching` is
    the mean distance between the features of samples and of their reconstructions.
    """
    mask = discriminator.mask_of(batch)
    with _frozen(discriminator):
        fake = discriminator(reconstruction, mask)
        with torch.no_grad():
            real = discriminator(batch, mask)
    adversarial = -fake.logits.mean() if kind == "hinge" else F.softplus(-fake.logits).mean()
    distances = [
        F.l1_loss(mine.float(), theirs.float())
        for mine, theirs in zip(fake.features, real.features, strict=True)
    ]
    matching = torch.stack(distances).mean()
    return {
        "loss": adversarial + feature_weight * matching,
        "adversarial": adversarial,
        "feature_matching": matching,
    }


@contextmanager
def _frozen(module: nn.Module) -> Iterator[None]:
    """No parameter of `module` gets a gradient from what is computed in the block."""
    trained = [weight for weight in module.parameters() if weight.requires_grad]
    for weight in trained:
        weight.requires_grad = False
    try:
        yield
    finally:
        for weight in trained:
            weight.requires_grad = True

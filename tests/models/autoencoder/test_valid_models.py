"""Every valid encoder × latent space × decoder: it builds, trains, and is saved and loaded."""

from __future__ import annotations

from itertools import product

import pytest
import torch

from midstep.core.sample_spec import SampleKind
from midstep.models.autoencoder import (
    Autoencoder,
    reconstruction_loss,
    training_loss,
    valid_pairs,
)
from midstep.models.autoencoder.builders import LATENT_SPACES
from tests.models.autoencoder.samples import SPECS, batch_of, small_model

KINDS: tuple[SampleKind, ...] = ("events", "image", "vector")
MODELS = [
    (kind, encoder, latent_space, decoder)
    for kind in KINDS
    for (encoder, decoder), latent_space in product(valid_pairs(kind), LATENT_SPACES.names())
    if latent_space != "identity"  # the same builder as `none`
]
STEPS = 12


def train(model: Autoencoder, kind: SampleKind, steps: int) -> None:
    batch = batch_of(kind)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for _ in range(steps):
        optimizer.zero_grad()
        training_loss(model(batch), batch, SPECS[kind])["loss"].backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()


def evaluation_loss(model: Autoencoder, kind: SampleKind) -> float:
    """The loss of the reconstruction in inference, with the same random numbers each time."""
    batch = batch_of(kind)
    with torch.no_grad():
        output = model.eval()(batch, torch.Generator().manual_seed(1))
    model.train()
    return float(reconstruction_loss(output, batch, SPECS[kind])["loss"])


@pytest.mark.parametrize(("kind", "encoder", "latent_space", "decoder"), MODELS)
def test_valid_model_learns_and_round_trips_through_its_state(
    kind: SampleKind, encoder: str, latent_space: str, decoder: str
) -> None:
    model = small_model(kind, encoder, latent_space, decoder)
    before = evaluation_loss(model, kind)
    train(model, kind, STEPS)
    after = evaluation_loss(model, kind)
    assert after < before

    copy = small_model(kind, encoder, latent_space, decoder, seed=9)
    copy.load_state_dict(model.state_dict())
    assert evaluation_loss(copy, kind) == after

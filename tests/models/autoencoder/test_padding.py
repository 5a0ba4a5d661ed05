"""Padding has no influence: on latent vectors, on reconstructions, on losses, on gradients."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pytest
import torch

from midstep.models.autoencoder import (
    Discriminator,
    DiscriminatorConfig,
    discriminator_loss,
    generator_loss,
    training_loss,
    valid_pairs,
)
from tests.models.autoencoder.samples import SPECS, batch_of, small_model

SPEC = SPECS["events"]


def with_other_padding(batch: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    is_padding = (batch["tokens_id"] == 0).unsqueeze(-1)
    assert is_padding.any()
    return {**batch, "tokens_cont": torch.where(is_padding, math.nan, batch["tokens_cont"])}


@pytest.mark.parametrize("training", [True, False], ids=["training", "inference"])
@pytest.mark.parametrize(("encoder", "decoder"), valid_pairs("events"))
def test_values_of_padding_have_no_influence(encoder: str, decoder: str, training: bool) -> None:
    results = []
    for batch in (batch_of("events"), with_other_padding(batch_of("events"))):
        model = small_model("events", encoder, "vq", decoder).train(training)
        torch.manual_seed(2)
        output = model(batch)
        parts = training_loss(output, batch, SPEC)
        parts["loss"].backward()
        gradients = [weight.grad for weight in model.parameters() if weight.grad is not None]
        results.append(
            [output.latent, *output.reconstruction.values(), *parts.values(), *gradients]
        )
    for first, second in zip(*results, strict=True):
        assert torch.equal(first, second)


def test_a_discriminator_does_not_see_padding() -> None:
    torch.manual_seed(0)
    discriminator = Discriminator(DiscriminatorConfig(hidden_dims=(8, 8)), SPEC).eval()
    model, batch = small_model("events"), batch_of("events")
    reconstruction = model(batch).reconstruction
    other = with_other_padding(batch)
    changed = {
        **reconstruction,
        "tokens_cont": other["tokens_cont"] * 0 + reconstruction["tokens_cont"],
    }
    for loss in (discriminator_loss, generator_loss):
        parts = loss(discriminator, reconstruction, batch)
        for name, value in loss(discriminator, changed, other).items():
            assert torch.equal(value, parts[name]), name


def test_order_of_tokens_has_no_influence_on_the_encoder_gnn() -> None:
    model, batch = small_model("events", "gnn"), batch_of("events")
    order = torch.tensor([2, 0, 3, 1])
    shuffled = {name: value[:, order] for name, value in batch.items() if name != "globals"}
    moved = model.encode({**batch, **shuffled})
    assert torch.allclose(model.encode(batch), moved, atol=1e-5)

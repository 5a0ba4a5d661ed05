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
from midstep.models.autoencoder.parts.gnn_parts import MessagePassing
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


def slow_round(layer: MessagePassing, tokens: torch.Tensor) -> torch.Tensor:
    """Message by message, for the tokens [T, inputs] of one event without padding."""
    rows = []
    for receiver in tokens:
        messages = [layer.act(layer.sender(each) + layer.receiver(receiver)) for each in tokens]
        mean = torch.stack(messages).mean(0)
        rows.append(layer.norm(layer.act(layer.update(torch.cat([receiver, mean])))))
    return torch.stack(rows)


def test_messages_are_those_of_the_real_tokens_alone() -> None:
    torch.manual_seed(0)
    layer, tokens = MessagePassing(3, 8, "gelu"), torch.randn(3, 5, 3)
    mask = torch.arange(5) < torch.tensor([[5], [3], [1]])
    fast = layer(tokens, mask)
    for row, count in enumerate(mask.sum(1).tolist()):
        slow = slow_round(layer, tokens[row, :count])
        assert torch.allclose(fast[row, :count], slow, atol=1e-6)

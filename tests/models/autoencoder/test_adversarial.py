"""The adversarial loss moves both players, each by its own gradient alone."""

from __future__ import annotations

import copy
import math

import pytest
import torch

from midstep.core.errors import ConfigError
from midstep.core.sample_spec import SampleKind
from midstep.models.autoencoder import (
    Discriminator,
    DiscriminatorConfig,
    discriminator_loss,
    generator_loss,
)
from tests.models.autoencoder.samples import SPECS, batch_of, small_model

KINDS: tuple[SampleKind, ...] = ("events", "image", "vector")
FORMS = ("hinge", "non_saturating")


def small_discriminator(kind: SampleKind) -> Discriminator:
    torch.manual_seed(0)
    return Discriminator(DiscriminatorConfig(hidden_dims=(16, 16), id_embedding=3), SPECS[kind])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", KINDS)
def test_both_players_move_and_gain(kind: SampleKind, form: str) -> None:
    model, discriminator = small_model(kind, decoder="gan"), small_discriminator(kind)
    batch = batch_of(kind)
    reconstruction = model(batch).reconstruction

    optimizer = torch.optim.Adam(discriminator.parameters(), lr=0.02)
    losses = []
    for _ in range(15):
        optimizer.zero_grad()
        parts = discriminator_loss(discriminator, reconstruction, batch, kind=form)
        parts["loss"].backward()
        optimizer.step()
        losses.append(float(parts["loss"].detach()))
    assert losses[-1] < losses[0]
    assert parts["real_score"] > parts["fake_score"]
    assert all(weight.grad is None for weight in model.parameters())

    discriminator.eval().zero_grad()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    losses = []
    for _ in range(15):
        optimizer.zero_grad()
        torch.manual_seed(1)  # the same noise for each, so that the losses can be compared
        parts = generator_loss(discriminator, model(batch).reconstruction, batch, kind=form)
        parts["loss"].backward()
        optimizer.step()
        losses.append(float(parts["loss"].detach()))
    assert losses[-1] < losses[0]
    assert all(weight.grad is None for weight in discriminator.parameters())
    assert all(weight.requires_grad for weight in discriminator.parameters())


def test_losses_have_the_known_values_of_an_undecided_discriminator() -> None:
    discriminator, batch = small_discriminator("vector"), batch_of("vector")
    with torch.no_grad():
        for weight in discriminator.head.parameters():
            weight.zero_()
    reconstruction = {"x": batch["x"] + 1}
    for form, both, one in (("hinge", 2.0, 0.0), ("non_saturating", 2 * math.log(2), math.log(2))):
        judged = discriminator_loss(discriminator, reconstruction, batch, kind=form)
        assert float(judged["loss"].detach()) == pytest.approx(both)
        played = generator_loss(discriminator, reconstruction, batch, kind=form, feature_weight=0.5)
        assert float(played["adversarial"]) == pytest.approx(one)
        expected = played["adversarial"] + 0.5 * played["feature_matching"]
        assert torch.equal(played["loss"], expected)


def test_features_of_equal_samples_match() -> None:
    discriminator, batch = small_discriminator("image").eval(), batch_of("image")
    assert generator_loss(discriminator, batch, batch)["feature_matching"] == 0


def test_a_certain_type_is_judged_as_its_id() -> None:
    discriminator, batch = small_discriminator("events").eval(), batch_of("events")
    logits = 1e4 * torch.nn.functional.one_hot(batch["tokens_id"], 4).float()
    mask = batch["tokens_id"] != 0
    expected = discriminator(batch).logits
    assert torch.allclose(discriminator({**batch, "tokens_id": logits}, mask).logits, expected)


def test_state_round_trips() -> None:
    discriminator, batch = small_discriminator("vector"), batch_of("vector")
    discriminator(batch)
    twin = small_discriminator("vector")
    twin.load_state_dict(copy.deepcopy(discriminator.state_dict()))
    assert torch.equal(twin.eval()(batch).logits, discriminator.eval()(batch).logits)


def test_unknown_form_is_refused() -> None:
    with pytest.raises(ConfigError, match="kind must be one of hinge, non_saturating, got 'wgan'"):
        DiscriminatorConfig(kind="wgan")


@pytest.mark.parametrize("kind", KINDS)
def test_both_losses_work_under_autocast(kind: SampleKind) -> None:
    discriminator, batch = small_discriminator(kind), batch_of(kind)
    with torch.autocast("cpu", torch.bfloat16):
        reconstruction = small_model(kind)(batch).reconstruction
        judged = discriminator_loss(discriminator, reconstruction, batch)["loss"]
        played = generator_loss(discriminator, reconstruction, batch)["loss"]
    (judged + played).backward()
    assert judged.dtype == played.dtype == torch.float32
    assert all(weight.grad.isfinite().all() for weight in discriminator.parameters())

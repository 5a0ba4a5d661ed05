"""Every valid encoder × latent space × decoder: it builds, trains, and is saved and loaded."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
import torch

from midstep.core.sample_spec import SampleKind
from midstep.models.autoencoder import (
    Autoencoder,
    AutoencoderOutput,
    Discriminator,
    DiscriminatorConfig,
    training_loss,
    valid_pairs,
)
from midstep.models.autoencoder.builders import LATENT_SPACES
from midstep.session.checkpoint.checkpoint_store import CheckpointStore, read_checkpoint
from midstep.session.state.snapshot import Snapshot
from tests.models.autoencoder.samples import SPECS, batch_of, small_model

KINDS: tuple[SampleKind, ...] = ("events", "image", "vector")
MODELS = [
    (kind, encoder, latent_space, decoder)
    for kind in KINDS
    for (encoder, decoder), latent_space in product(valid_pairs(kind), LATENT_SPACES.names())
    if latent_space != "identity"  # the same builder as `none`
]
STEPS = 5


def train(model: Autoencoder, kind: SampleKind, steps: int) -> list[float]:
    """The loss of each step, all with the same random numbers so that they can be compared."""
    batch, losses = batch_of(kind), []
    optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
    for _ in range(steps):
        optimizer.zero_grad()
        torch.manual_seed(1)
        loss = training_loss(model(batch), batch, SPECS[kind])["loss"]
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses


def inference(model: Autoencoder, kind: SampleKind) -> AutoencoderOutput:
    """The output in inference, with the same random numbers each time."""
    with torch.no_grad():
        output: AutoencoderOutput = model.eval()(batch_of(kind), torch.Generator().manual_seed(1))
    return output


@pytest.mark.parametrize(("kind", "encoder", "latent_space", "decoder"), MODELS)
def test_valid_model_learns_and_round_trips_through_its_checkpoint(
    kind: SampleKind, encoder: str, latent_space: str, decoder: str, tmp_path: Path
) -> None:
    model = small_model(kind, encoder, latent_space, decoder)
    losses = train(model, kind, STEPS)
    assert losses[-1] < losses[0]

    twin = small_model(kind, encoder, latent_space, decoder, seed=9)
    saved = CheckpointStore(tmp_path).save(Snapshot.take({"model": model}, step=STEPS))
    twin.load_state_dict(read_checkpoint(saved).states["model"])
    expected, loaded = inference(model, kind), inference(twin, kind)
    for name, value in expected.reconstruction.items():
        assert torch.equal(loaded.reconstruction[name], value), name
        assert value.shape[:2] == batch_of(kind)[name].shape[:2]


PAIRS = [(kind, *pair) for kind in KINDS for pair in valid_pairs(kind)]


@pytest.mark.parametrize(("kind", "encoder", "decoder"), PAIRS)
def test_valid_pair_trains_under_autocast(kind: SampleKind, encoder: str, decoder: str) -> None:
    batch, losses = batch_of(kind), []
    for enabled in (False, True):
        model = small_model(kind, encoder, "vq", decoder)
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            loss = training_loss(model(batch), batch, SPECS[kind])["loss"]
        loss.backward()
        assert loss.dtype == torch.float32
        assert all(weight.grad.isfinite().all() for weight in model.parameters())
        losses.append(float(loss.detach()))
    assert losses[1] == pytest.approx(losses[0], rel=0.1)


@pytest.mark.parametrize(("kind", "encoder", "decoder"), PAIRS)
def test_valid_pair_works_without_hidden_layers(
    kind: SampleKind, encoder: str, decoder: str
) -> None:
    batch = batch_of(kind)
    model = small_model(kind, encoder, "linear", decoder, hidden_dims=())
    training_loss(model(batch), batch, SPECS[kind])["loss"].backward()
    assert model.encoder.latent.weight.grad.abs().sum() > 0


@pytest.mark.parametrize(("encoder", "decoder"), valid_pairs("events"))
def test_events_need_no_globals(encoder: str, decoder: str) -> None:
    spec = replace(SPECS["events"], globals=0)
    batch = {name: value for name, value in batch_of("events").items() if name != "globals"}
    model = small_model("events", encoder, "none", decoder, spec=spec)
    parts = training_loss(model(batch), batch, spec)
    parts["loss"].backward()
    assert parts.keys() == {"loss", "cont", "id"}
    assert model.eval()(batch).reconstruction.keys() == batch.keys()
    discriminator = Discriminator(DiscriminatorConfig(hidden_dims=(8,)), spec)
    assert discriminator(batch).logits.isfinite().all()

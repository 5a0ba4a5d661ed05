"""The decoder `diffusion`: noise levels, samples, loss; and the encoder of the same name."""

from __future__ import annotations

import pytest
import torch

from midstep.core.sample_spec import SampleKind, SampleSpec
from midstep.models.autoencoder import (
    DecoderConfig,
    EncoderConfig,
    LatentSpaceConfig,
    ModelConfig,
    build_from_config,
    diffusion_loss,
    reconstruction_loss,
    training_loss,
)
from midstep.models.autoencoder.parts.noise_conditioning import (
    implied_noise,
    signal_levels,
    with_noise,
)
from tests.models.autoencoder.samples import SPECS, batch_of, small_model

BLOBS = SampleSpec(kind="image", channels=1, height=8, width=8)


def blobs(count: int, seed: int) -> torch.Tensor:
    """Images of one bright spot somewhere."""
    center = 2 + 4 * torch.rand(count, 2, 1, 1, generator=torch.Generator().manual_seed(seed))
    rows, columns = torch.arange(8.0).view(1, 8, 1), torch.arange(8.0).view(1, 1, 8)
    distance = (rows - center[:, 0]).square() + (columns - center[:, 1]).square()
    return (2 * torch.exp(-distance / 2) - 0.4).unsqueeze(1)


def test_samples_beat_the_mean_image() -> None:
    torch.manual_seed(0)
    config = ModelConfig(
        encoder=EncoderConfig(hidden_dims=(64,)),
        decoder=DecoderConfig(name="diffusion", hidden_dims=(64, 64), sampling_steps=5),
        latent_space=LatentSpaceConfig(latent_dim=4),
    )
    model, train, test = build_from_config(config, BLOBS), blobs(512, 1), blobs(64, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for step in range(150):
        batch = {"image": train.roll(-64 * step, 0)[:64]}
        optimizer.zero_grad()
        training_loss(model(batch), batch, BLOBS)["loss"].backward()
        optimizer.step()
    with torch.no_grad():
        latent = model.eval().encode({"image": test})
        samples = model.decode(latent, torch.Generator().manual_seed(3))["image"]
    of_mean_image = (test - train.mean(0)).square().mean()
    assert (samples - test).square().mean() < 0.4 * of_mean_image
    # The samples are spread out like the data, and not all the same image.
    assert samples.var(0).mean() > 0.5 * test.var(0).mean()


def test_noise_is_the_inverse_of_adding_it() -> None:
    signal = signal_levels(20)[1:]
    clean, noise = torch.randn(20, 3), torch.randn(20, 3)
    noisy = with_noise(clean, noise, signal)
    assert torch.allclose(implied_noise(noisy, clean, signal), noise, atol=1e-3)
    assert torch.allclose(
        signal.sqrt().view(-1, 1) * clean,
        noisy - (1 - signal).sqrt().view(-1, 1) * noise,
        atol=1e-5,
    )


@pytest.mark.parametrize("kind", ["events", "image", "vector"])
def test_a_generator_decides_the_sample_alone(kind: SampleKind) -> None:
    model = small_model(kind, decoder="diffusion").eval()
    latent = torch.randn(3, 4)
    state = torch.get_rng_state()
    first, second, other = (
        model.decode(latent, torch.Generator().manual_seed(seed)) for seed in (1, 1, 2)
    )
    assert torch.equal(torch.get_rng_state(), state)
    for name, value in first.items():
        assert torch.equal(second[name], value)
        assert not torch.equal(other[name], value)


def test_diffusion_loss_is_the_reconstruction_from_random_levels_with_the_error_of_the_noise() -> (
    None
):
    model, batch = small_model("vector", decoder="diffusion"), batch_of("vector")
    output = model(batch)
    parts = diffusion_loss(output, batch, SPECS["vector"])
    assert torch.equal(parts["loss"], reconstruction_loss(output, batch, SPECS["vector"])["loss"])
    estimate = output.reconstruction["x"].detach()
    noise = torch.randn_like(estimate)
    noisy = with_noise(batch["x"], noise, output.signal)
    slow = (implied_noise(noisy, estimate, output.signal) - noise).square().mean()
    assert float(parts["noise"]) == pytest.approx(float(slow), rel=1e-2)
    assert diffusion_loss(model.eval()(batch), batch, SPECS["vector"]).keys() == {"loss", "cont"}


def test_an_encoder_sees_noise_in_training_alone() -> None:
    model, batch = small_model("image", "diffusion"), batch_of("image")
    assert not torch.equal(model.encode(batch), model.encode(batch))
    model.eval()
    assert torch.equal(model.encode(batch), model.encode(batch))

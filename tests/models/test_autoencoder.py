"""The linear autoencoder: its shape, its seed, and that it draws from nobody else's generator."""

from __future__ import annotations

import pytest
import torch

from midstep.core.errors import ConfigError
from midstep.models.linear_autoencoder import LinearAutoencoder, LinearAutoencoderConfig


def test_default_is_784_64_784() -> None:
    model = LinearAutoencoder(LinearAutoencoderConfig())
    shapes = {name: tuple(value.shape) for name, value in model.named_parameters()}
    assert shapes == {
        "encoder.weight": (64, 784),
        "encoder.bias": (64,),
        "decoder.weight": (784, 64),
        "decoder.bias": (784,),
    }


def test_features_are_rectified_and_pixels_lie_between_0_and_1() -> None:
    model = LinearAutoencoder(LinearAutoencoderConfig(seed=3))
    images = torch.linspace(-3, 3, 4 * 784).reshape(4, 1, 28, 28)
    assert (model.encode(images) >= 0).all()
    pixels = model(images)
    assert ((pixels >= 0) & (pixels <= 1)).all()


def test_weights_depend_on_the_seed_alone() -> None:
    torch.manual_seed(1)
    first = LinearAutoencoder(LinearAutoencoderConfig(seed=5))
    torch.manual_seed(2)
    second = LinearAutoencoder(LinearAutoencoderConfig(seed=5))
    other = LinearAutoencoder(LinearAutoencoderConfig(seed=6))
    assert torch.equal(first.encoder.weight, second.encoder.weight)
    assert not torch.equal(first.encoder.weight, other.encoder.weight)


def test_building_draws_from_no_global_generator() -> None:
    before = torch.get_rng_state()
    LinearAutoencoder(LinearAutoencoderConfig())
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("field", ["inputs", "hidden"])
def test_empty_layer_is_refused(field: str) -> None:
    with pytest.raises(ConfigError, match=f"{field} must be a whole number of at least 1, got 0"):
        LinearAutoencoderConfig(**{field: 0})

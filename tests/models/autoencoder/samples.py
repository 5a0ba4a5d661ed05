"""Small samples of every kind for the tests of the parts."""

from __future__ import annotations

import torch

from midstep.core.sample_spec import SampleKind, SampleSpec
from midstep.models.autoencoder import (
    Autoencoder,
    DecoderConfig,
    EncoderConfig,
    LatentSpaceConfig,
    ModelConfig,
    build_from_config,
)

SPECS: dict[SampleKind, SampleSpec] = {
    "events": SampleSpec(kind="events", n_tokens=4, cont_dim=2, globals=2, num_types=4),
    "image": SampleSpec(kind="image", channels=1, height=6, width=5),
    "vector": SampleSpec(kind="vector", features=6),
}


def batch_of(kind: SampleKind, size: int = 32, seed: int = 0) -> dict[str, torch.Tensor]:
    """Samples with two hidden values each, so that a small latent vector can hold them."""
    generator = torch.Generator().manual_seed(seed)
    hidden = torch.randn(size, 2, generator=generator)
    spec = SPECS[kind]
    if kind == "vector":
        return {"x": torch.sin(hidden @ torch.linspace(-1, 1, 12).view(2, 6))}
    if kind == "image":
        return {
            "image": torch.sin(hidden @ torch.linspace(-1, 1, 60).view(2, 30)).view(-1, 1, 6, 5)
        }
    lengths = torch.randint(1, spec.n_tokens + 1, (size, 1), generator=generator)
    ids = 1 + (hidden[:, :1] > 0).long() + (torch.arange(4) % 2)
    mask = torch.arange(4) < lengths
    cont = torch.sin(hidden @ torch.linspace(-1, 1, 16).view(2, 8)).view(-1, 4, 2)
    return {
        "tokens_cont": torch.where(mask.unsqueeze(-1), cont, 0),
        "tokens_id": torch.where(mask, ids, 0),
        "globals": hidden.clone(),
    }


def small_model(
    kind: SampleKind,
    encoder: str = "mlp",
    latent_space: str = "none",
    decoder: str = "mlp",
    *,
    seed: int = 0,
    hidden_dims: tuple[int, ...] = (16,),
    spec: SampleSpec | None = None,
) -> Autoencoder:
    """A model that trains in a moment."""
    torch.manual_seed(seed)
    config = ModelConfig(
        encoder=EncoderConfig(name=encoder, hidden_dims=hidden_dims, id_embedding=3),
        decoder=DecoderConfig(
            name=decoder, hidden_dims=hidden_dims, noise_dim=2, timesteps=10, sampling_steps=3
        ),
        latent_space=LatentSpaceConfig(
            name=latent_space, latent_dim=4, codebook_size=16, decay=0.8, quantizers=2
        ),
    )
    return build_from_config(config, spec or SPECS[kind])

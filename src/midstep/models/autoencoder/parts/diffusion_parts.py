"""Encoder and decoder `diffusion`.

The decoder denoises: it sees a noisy sample, its noise level and the latent vector, and estimates
the clean sample. Training takes a random noise level for each sample (DDPM, Ho et al. 2020);
inference starts from noise alone and takes few deterministic steps (DDIM, Song et al. 2021).

The network estimates the sample, not the noise: the noise of an image fills all of its dimensions
and does not pass through layers that are narrower than the image.
"""

from __future__ import annotations

from itertools import pairwise

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import nn

from midstep.core.sample_spec import SampleSpec
from midstep.models.autoencoder.layers import last_width, linear
from midstep.models.autoencoder.part_bases import Batch, Decoder, DecoderOutput, Encoder
from midstep.models.autoencoder.part_configs import DecoderConfig, EncoderConfig
from midstep.models.autoencoder.parts.noise_conditioning import (
    ConditionedStack,
    NoiseEmbedding,
    implied_noise,
    signal_levels,
    with_noise,
)
from midstep.models.autoencoder.parts.random_draws import normal_like, uniform_like
from midstep.models.autoencoder.sample_layout import (
    FlatInput,
    SampleHead,
    flat_width,
    real_tokens,
)

_MOST_NOISE = 0.25
"""Largest share of noise in what the encoder reads in training. With more, the latent vector could
not tell samples apart."""
_CONTINUOUS = ("tokens_cont", "globals", "image", "x")
"""Entries of a batch to which the encoder adds noise."""


class DiffusionEncoder(Encoder):
    """Layers that read a noisy sample in training, a clean one in inference, and know which.

    Latent vectors change little under noise, because the same decoder must read all of them.
    """

    def __init__(self, cfg: EncoderConfig, spec: SampleSpec, latent_dim: int) -> None:
        super().__init__()
        self.flat = FlatInput(spec, cfg.id_embedding)
        self.level = NoiseEmbedding()
        width = self.flat.width
        self.layers = ConditionedStack(width, cfg.hidden_dims, self.level.width, cfg.activation)
        self.latent = linear(last_width(width, cfg.hidden_dims), latent_dim)

    def forward(self, batch: Batch, generator: torch.Generator | None = None) -> torch.Tensor:
        """Latent vectors [B, latent_dim]."""
        first = next(iter(batch.values()))
        signal = torch.ones(len(first), device=first.device)
        if self.training:
            signal = 1 - _MOST_NOISE * uniform_like(first, generator)
            batch = {
                name: with_noise(value, normal_like(value, generator), signal)
                if name in _CONTINUOUS
                else value
                for name, value in batch.items()
            }
        features = self.layers(self.flat(batch), self.level(signal))
        latent: torch.Tensor = self.latent(features)
        return latent


class SampleVector(nn.Module):
    """Samples as vectors [B, width] to which noise can be added, and which parts of them are real.

    The type of a token becomes one value per type: 1 for its own, -1 for the others.
    """

    def __init__(self, spec: SampleSpec) -> None:
        super().__init__()
        self.spec = spec
        self.width = flat_width(spec)
        if spec.kind == "events":
            self.width = spec.n_tokens * (spec.cont_dim + spec.num_types) + spec.globals

    def forward(self, sample: Batch) -> torch.Tensor:
        """The vector of a batch, or of an estimate whose `tokens_id` are logits."""
        if self.spec.kind != "events":
            name = "image" if self.spec.kind == "image" else "x"
            return sample[name].flatten(1).float()
        ids = sample["tokens_id"]
        one_of_types = (
            ids.float().softmax(-1)
            if ids.is_floating_point()
            else F.one_hot(ids.long(), self.spec.num_types).float()
        )
        tokens = torch.cat([sample["tokens_cont"].float(), 2 * one_of_types - 1], -1)
        return self._with_globals(tokens, sample.get("globals"))

    def real_parts(self, batch: Batch) -> torch.Tensor | None:
        """Mask [B, width] without the values of padding; None where every value is real."""
        if self.spec.kind != "events":
            return None
        per_token = self.spec.cont_dim + self.spec.num_types
        mask = real_tokens(batch)
        tokens = mask.unsqueeze(-1).expand(-1, -1, per_token)
        return self._with_globals(tokens, mask.new_ones(len(mask), self.spec.globals))

    def _with_globals(self, tokens: torch.Tensor, extra: torch.Tensor | None) -> torch.Tensor:
        if extra is None or not self.spec.globals:
            return tokens.flatten(1)
        return torch.cat([tokens.flatten(1), extra.to(tokens.dtype)], -1)


class DiffusionDecoder(Decoder):
    """A denoiser conditioned on the latent vector.

    In training `reconstruct` denoises the batch from a random level; in inference it draws samples.
    """

    signal: torch.Tensor

    def __init__(self, cfg: DecoderConfig, spec: SampleSpec, latent_dim: int) -> None:
        super().__init__()
        self.timesteps, self.sampling_steps = cfg.timesteps, min(cfg.sampling_steps, cfg.timesteps)
        self.vector = SampleVector(spec)
        self.level = NoiseEmbedding()
        self.register_buffer("signal", signal_levels(cfg.timesteps))
        inputs, condition = self.vector.width + latent_dim, self.level.width + latent_dim
        self.layers = ConditionedStack(inputs, cfg.hidden_dims, condition, cfg.activation)
        width = last_width(inputs, cfg.hidden_dims)
        self.head = SampleHead(width, width, spec, cfg.activation)

    def denoise(
        self, noisy: torch.Tensor, signal: torch.Tensor, latent: torch.Tensor
    ) -> dict[str, torch.Tensor]:
        """An estimate of the clean samples, from noisy vectors [B, width] and their signal [B]."""
        condition = torch.cat([self.level(signal), latent], -1)
        features = self.layers(torch.cat([noisy, latent], -1), condition)
        sample: dict[str, torch.Tensor] = self.head(features, features)
        return sample

    def reconstruct(
        self, latent: torch.Tensor, batch: Batch, generator: torch.Generator | None = None
    ) -> DecoderOutput:
        """In training an estimate from a random noise level, in inference a drawn sample."""
        real = self.vector.real_parts(batch)
        if not self.training:
            return DecoderOutput(reconstruction=self._sample(latent, real, generator))
        clean = _only(self.vector(batch), real)
        levels = (uniform_like(latent, generator) * self.timesteps).long() + 1
        signal = self.signal[levels.clamp(max=self.timesteps)]
        noisy = _only(with_noise(clean, normal_like(clean, generator), signal), real)
        return DecoderOutput(reconstruction=self.denoise(noisy, signal, latent), signal=signal)

    def forward(
        self, latent: torch.Tensor, generator: torch.Generator | None = None
    ) -> dict[str, torch.Tensor]:
        """A sample for each latent vector, drawn in `sampling_steps` steps."""
        return self._sample(latent, None, generator)

    def _sample(
        self, latent: torch.Tensor, real: torch.Tensor | None, generator: torch.Generator | None
    ) -> dict[str, torch.Tensor]:
        """DDIM without added noise; values of padding stay 0 as in training."""
        noisy = _only(
            normal_like(latent.new_empty(len(latent), self.vector.width), generator), real
        )
        steps = torch.linspace(self.timesteps, 0, self.sampling_steps + 1).round().long().tolist()
        for step, next_step in pairwise(steps):
            signal = self.signal[step].expand(len(latent))
            estimate = self.denoise(noisy, signal, latent)
            clean = self.vector(estimate)
            noise = implied_noise(noisy, clean, signal)
            noisy = _only(with_noise(clean, noise, self.signal[next_step].expand_as(signal)), real)
        return estimate


def _only(vectors: torch.Tensor, real: torch.Tensor | None) -> torch.Tensor:
    """Vectors with zeros where they are padding."""
    return vectors if real is None else torch.where(real, vectors, 0)

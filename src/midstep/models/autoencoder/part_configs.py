"""Configs of the parts of an autoencoder, as the groups of `conf/phase1` fill them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, get_args

from midstep.core.field_checks import at_least, one_of, require, within

ACTIVATIONS = ("gelu", "relu", "silu", "tanh")
AdversarialKind = Literal["hinge", "non_saturating"]


@dataclass(frozen=True, kw_only=True)
class EncoderConfig:
    """Settings of an encoder. Fields that its kind does not use are ignored."""

    name: str = "mlp"
    """Name of a registered encoder: mlp, gnn, conv, gan or diffusion."""
    hidden_dims: tuple[int, ...] = (128, 128)
    """Width of each hidden layer; channels for `conv`."""
    activation: str = "gelu"
    """Name of an activation: gelu, relu, silu or tanh."""
    id_embedding: int = 8
    """Length of the embedding of a token's type."""

    def __post_init__(self) -> None:
        require(
            *(at_least("hidden_dims", width, 1) for width in self.hidden_dims),
            one_of("activation", self.activation, ACTIVATIONS),
            at_least("id_embedding", self.id_embedding, 1),
        )


@dataclass(frozen=True, kw_only=True)
class DecoderConfig:
    """Settings of a decoder. Fields that its kind does not use are ignored."""

    name: str = "mlp"
    """Name of a registered decoder: mlp, gnn, conv, diffusion or gan."""
    hidden_dims: tuple[int, ...] = (128, 128)
    """Width of each hidden layer; channels for `conv`."""
    activation: str = "gelu"
    """Name of an activation: gelu, relu, silu or tanh."""
    noise_dim: int = 8
    """Length of the noise that the decoder `gan` adds to its input."""
    timesteps: int = 100
    """Noise levels of the decoder `diffusion`."""
    sampling_steps: int = 20
    """DDIM steps in which the decoder `diffusion` makes a sample."""

    def __post_init__(self) -> None:
        require(
            *(at_least("hidden_dims", width, 1) for width in self.hidden_dims),
            one_of("activation", self.activation, ACTIVATIONS),
            at_least("noise_dim", self.noise_dim, 1),
            at_least("timesteps", self.timesteps, 1),
            at_least("sampling_steps", self.sampling_steps, 1),
        )


@dataclass(frozen=True, kw_only=True)
class LatentSpaceConfig:
    """Settings of the latent space between encoder and decoder."""

    name: str = "linear"
    """Name of a registered latent space: none (identity), linear, vq, fsq or residual_vq."""
    latent_dim: int = 32
    """Length of the latent vector."""
    codebook_size: int = 512
    """Codes of a codebook."""
    beta: float = 0.25
    """Weight of the commitment loss of `vq`."""
    decay: float = 0.99
    """Decay of the moving averages of `vq`."""
    quantizers: int = 4
    """Codebooks of `residual_vq`."""

    def __post_init__(self) -> None:
        require(
            at_least("latent_dim", self.latent_dim, 1),
            at_least("codebook_size", self.codebook_size, 2),
            within("beta", self.beta, 0, 1_000),
            within("decay", self.decay, 0, 1),
            at_least("quantizers", self.quantizers, 1),
        )


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The parts of one autoencoder: `phase1` of the config tree without its trainer."""

    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    """From a sample to the latent space."""
    decoder: DecoderConfig = field(default_factory=DecoderConfig)
    """From the latent space to a sample."""
    latent_space: LatentSpaceConfig = field(default_factory=LatentSpaceConfig)
    """What the decoder sees of the encoder's output."""


@dataclass(frozen=True, kw_only=True)
class DiscriminatorConfig:
    """Settings of the discriminator of an adversarial loss."""

    hidden_dims: tuple[int, ...] = (128, 128)
    """Width of each layer; channels for images."""
    id_embedding: int = 8
    """Length of the embedding of a token's type."""
    kind: AdversarialKind = "hinge"
    """Form of the loss: hinge or non_saturating."""
    feature_weight: float = 1.0
    """Weight of feature matching in the loss of the autoencoder."""

    def __post_init__(self) -> None:
        require(
            *(at_least("hidden_dims", width, 1) for width in self.hidden_dims),
            at_least("id_embedding", self.id_embedding, 1),
            one_of("kind", self.kind, get_args(AdversarialKind)),
            within("feature_weight", self.feature_weight, 0, 1_000),
        )

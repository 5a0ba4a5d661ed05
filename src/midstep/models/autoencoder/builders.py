"""Build parts and whole autoencoders from configs; register further parts.

Every encoder meets every decoder in one latent vector per sample. So a pair is valid if both parts
work on the kind of sample, and any latent space fits between them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from midstep.core.sample_spec import SampleKind, SampleSpec
from midstep.models.autoencoder.autoencoder import Autoencoder
from midstep.models.autoencoder.latent.latent_spaces import IdentityLatentSpace, LinearLatentSpace
from midstep.models.autoencoder.latent.library_quantizers import (
    FiniteScalarQuantizer,
    ResidualQuantizer,
)
from midstep.models.autoencoder.latent.vector_quantizer import VectorQuantizer
from midstep.models.autoencoder.part_bases import Decoder, Encoder, LatentSpace
from midstep.models.autoencoder.part_configs import (
    DecoderConfig,
    EncoderConfig,
    LatentSpaceConfig,
    ModelConfig,
)
from midstep.models.autoencoder.part_registry import ALL_KINDS, PartRegistry
from midstep.models.autoencoder.parts.conv_parts import ConvDecoder, ConvEncoder
from midstep.models.autoencoder.parts.diffusion_parts import DiffusionDecoder, DiffusionEncoder
from midstep.models.autoencoder.parts.gan_parts import GanDecoder, GanEncoder
from midstep.models.autoencoder.parts.gnn_parts import GnnDecoder, GnnEncoder
from midstep.models.autoencoder.parts.mlp_parts import MlpDecoder, MlpEncoder

EncoderBuilder: TypeAlias = Callable[[EncoderConfig, SampleSpec, int], Encoder]
DecoderBuilder: TypeAlias = Callable[[DecoderConfig, SampleSpec, int], Decoder]
LatentSpaceBuilder: TypeAlias = Callable[[LatentSpaceConfig], LatentSpace]

ENCODERS: PartRegistry[EncoderBuilder] = PartRegistry("encoder")
DECODERS: PartRegistry[DecoderBuilder] = PartRegistry("decoder")
LATENT_SPACES: PartRegistry[LatentSpaceBuilder] = PartRegistry("latent space")


def register_encoder(
    name: str, builder: EncoderBuilder, *, kinds: Iterable[SampleKind] = ALL_KINDS
) -> EncoderBuilder:
    """Add an encoder: `builder(cfg, spec, latent_dim)` returns an `Encoder`."""
    return ENCODERS.register(name, builder, kinds=kinds)


def register_decoder(
    name: str, builder: DecoderBuilder, *, kinds: Iterable[SampleKind] = ALL_KINDS
) -> DecoderBuilder:
    """Add a decoder: `builder(cfg, spec, latent_dim)` returns a `Decoder`."""
    return DECODERS.register(name, builder, kinds=kinds)


def register_latent_space(name: str, builder: LatentSpaceBuilder) -> LatentSpaceBuilder:
    """Add a latent space: `builder(cfg)` returns a `LatentSpace`."""
    return LATENT_SPACES.register(name, builder)


def build_encoder(cfg: EncoderConfig, input_dim: SampleSpec, latent_dim: int) -> Encoder:
    """The encoder that a config names, for samples of `input_dim`."""
    ENCODERS.check_kind(cfg.name, input_dim.kind)
    return ENCODERS.find(cfg.name).builder(cfg, input_dim, latent_dim)


def build_decoder(cfg: DecoderConfig, output_dim: SampleSpec, latent_dim: int) -> Decoder:
    """The decoder that a config names, for samples of `output_dim`."""
    DECODERS.check_kind(cfg.name, output_dim.kind)
    return DECODERS.find(cfg.name).builder(cfg, output_dim, latent_dim)


def build_latent_space(cfg: LatentSpaceConfig) -> LatentSpace:
    """The latent space that a config names."""
    return LATENT_SPACES.find(cfg.name).builder(cfg)


def check_parts(cfg: ModelConfig, kind: SampleKind) -> None:
    """Raise a `ConfigError` of one line if a name is unknown or a part does not take the kind."""
    ENCODERS.check_kind(cfg.encoder.name, kind)
    DECODERS.check_kind(cfg.decoder.name, kind)
    LATENT_SPACES.find(cfg.latent_space.name)


def valid_pairs(kind: SampleKind) -> list[tuple[str, str]]:
    """Every pair of an encoder and a decoder that work on a kind of sample, in order.

    >>> ("mlp", "mlp") in valid_pairs("image")
    True
    """
    decoders = DECODERS.names(kind)
    return [(encoder, decoder) for encoder in ENCODERS.names(kind) for decoder in decoders]


def build_from_config(cfg: ModelConfig, spec: SampleSpec) -> Autoencoder:
    """The autoencoder of a config, for samples of `spec`.

    Weights are drawn from torch's own generator, as by any torch module.

    >>> spec = SampleSpec(kind="vector", features=6)
    >>> sum(weight.numel() for weight in build_from_config(ModelConfig(), spec).parameters())
    44102
    """
    check_parts(cfg, spec.kind)
    latent_dim = cfg.latent_space.latent_dim
    return Autoencoder(
        encoder=build_encoder(cfg.encoder, spec, latent_dim),
        latent_space=build_latent_space(cfg.latent_space),
        decoder=build_decoder(cfg.decoder, spec, latent_dim),
    )


_ENCODERS: tuple[tuple[str, EncoderBuilder, tuple[SampleKind, ...]], ...] = (
    ("mlp", MlpEncoder, ALL_KINDS),
    ("gnn", GnnEncoder, ("events",)),
    ("conv", ConvEncoder, ("image",)),
    ("gan", GanEncoder, ALL_KINDS),
    ("diffusion", DiffusionEncoder, ALL_KINDS),
)
_DECODERS: tuple[tuple[str, DecoderBuilder, tuple[SampleKind, ...]], ...] = (
    ("mlp", MlpDecoder, ALL_KINDS),
    ("gnn", GnnDecoder, ("events",)),
    ("conv", ConvDecoder, ("image",)),
    ("gan", GanDecoder, ALL_KINDS),
    ("diffusion", DiffusionDecoder, ALL_KINDS),
)
_LATENT_SPACES: tuple[tuple[str, LatentSpaceBuilder], ...] = (
    ("none", IdentityLatentSpace),
    ("identity", IdentityLatentSpace),
    ("linear", LinearLatentSpace),
    ("vq", VectorQuantizer),
    ("fsq", FiniteScalarQuantizer),
    ("residual_vq", ResidualQuantizer),
)
for _name, _encoder, _kinds in _ENCODERS:
    ENCODERS.register(_name, _encoder, kinds=_kinds, is_built_in=True)
for _name, _decoder, _kinds in _DECODERS:
    DECODERS.register(_name, _decoder, kinds=_kinds, is_built_in=True)
for _name, _latent_space in _LATENT_SPACES:
    LATENT_SPACES.register(_name, _latent_space, is_built_in=True)

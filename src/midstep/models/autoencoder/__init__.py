"""Autoencoders assembled from parts: encoder, latent space, decoder.

    model = build_from_config(ModelConfig(), spec)
    output = model(batch)
    loss = training_loss(output, batch, spec)["loss"]

The names below are loaded when first used, so that reading `part_configs` loads no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from midstep.core.lazy_names import lazy_names

if TYPE_CHECKING:
    from midstep.models.autoencoder.adversarial import Discriminator as Discriminator
    from midstep.models.autoencoder.adversarial import discriminator_loss as discriminator_loss
    from midstep.models.autoencoder.adversarial import generator_loss as generator_loss
    from midstep.models.autoencoder.autoencoder import Autoencoder as Autoencoder
    from midstep.models.autoencoder.autoencoder import AutoencoderOutput as AutoencoderOutput
    from midstep.models.autoencoder.builders import build_decoder as build_decoder
    from midstep.models.autoencoder.builders import build_encoder as build_encoder
    from midstep.models.autoencoder.builders import build_from_config as build_from_config
    from midstep.models.autoencoder.builders import build_latent_space as build_latent_space
    from midstep.models.autoencoder.builders import check_parts as check_parts
    from midstep.models.autoencoder.builders import register_decoder as register_decoder
    from midstep.models.autoencoder.builders import register_encoder as register_encoder
    from midstep.models.autoencoder.builders import register_latent_space as register_latent_space
    from midstep.models.autoencoder.builders import valid_pairs as valid_pairs
    from midstep.models.autoencoder.denoiser_loss import diffusion_loss as diffusion_loss
    from midstep.models.autoencoder.latent.codebook_usage import CodebookUsage as CodebookUsage
    from midstep.models.autoencoder.part_bases import Decoder as Decoder
    from midstep.models.autoencoder.part_bases import Encoder as Encoder
    from midstep.models.autoencoder.part_bases import LatentOutput as LatentOutput
    from midstep.models.autoencoder.part_bases import LatentSpace as LatentSpace
    from midstep.models.autoencoder.part_configs import DecoderConfig as DecoderConfig
    from midstep.models.autoencoder.part_configs import DiscriminatorConfig as DiscriminatorConfig
    from midstep.models.autoencoder.part_configs import EncoderConfig as EncoderConfig
    from midstep.models.autoencoder.part_configs import LatentSpaceConfig as LatentSpaceConfig
    from midstep.models.autoencoder.part_configs import ModelConfig as ModelConfig
    from midstep.models.autoencoder.reconstruction import predicted_ids as predicted_ids
    from midstep.models.autoencoder.reconstruction import (
        reconstruction_errors as reconstruction_errors,
    )
    from midstep.models.autoencoder.reconstruction import reconstruction_loss as reconstruction_loss
    from midstep.models.autoencoder.reconstruction import training_loss as training_loss

__all__, __getattr__, __dir__ = lazy_names(
    __name__,
    {
        ".adversarial": "Discriminator discriminator_loss generator_loss",
        ".autoencoder": "Autoencoder AutoencoderOutput",
        ".builders": "build_decoder build_encoder build_from_config build_latent_space check_parts "
        "register_decoder register_encoder register_latent_space valid_pairs",
        ".denoiser_loss": "diffusion_loss",
        ".latent.codebook_usage": "CodebookUsage",
        ".part_bases": "Decoder Encoder LatentOutput LatentSpace",
        ".part_configs": "DecoderConfig DiscriminatorConfig EncoderConfig LatentSpaceConfig "
        "ModelConfig",
        ".reconstruction": "predicted_ids reconstruction_errors reconstruction_loss training_loss",
    },
)

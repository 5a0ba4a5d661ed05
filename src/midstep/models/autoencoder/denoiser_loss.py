"""The loss of the decoder `diffusion` (DDPM, in the form that estimates the sample)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from midstep.core.sample_spec import SampleSpec
from midstep.models.autoencoder.autoencoder import AutoencoderOutput
from midstep.models.autoencoder.part_bases import Batch
from midstep.models.autoencoder.reconstruction import reconstruction_errors

if TYPE_CHECKING:
    import torch


def diffusion_loss(
    output: AutoencoderOutput, batch: Batch, spec: SampleSpec, *, globals_beta: float = 1.0
) -> dict[str, torch.Tensor]:
    """The error of estimates from random noise levels: `loss`, its parts, and `noise`.

    `loss` weighs every noise level alike. `noise` is the error of the noise that follows from the
    estimate, the simple loss of Ho et al. 2020; it is detached, for curves and comparisons.
    In inference there are no noise levels, and the result is that of `reconstruction_loss`.
    """
    errors = reconstruction_errors(output.reconstruction, batch, spec, globals_beta=globals_beta)
    parts = {name: error.mean() for name, error in errors.items()}
    if output.signal is None:
        return parts
    # The error of the noise is the error of the sample times the ratio of signal to noise.
    ratio = output.signal / (1 - output.signal)
    return {**parts, "noise": (ratio * errors["cont"].detach()).mean()}

"""How far a reconstruction is from its batch: per sample, and as a loss.

Only real tokens count, in training and in inference alike. The loss is the mean of the errors of
the samples, so it does not depend on how a dataset is cut into batches of equal size.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name

from midstep.core.sample_spec import SampleSpec
from midstep.models.autoencoder.autoencoder import AutoencoderOutput
from midstep.models.autoencoder.part_bases import Batch
from midstep.models.autoencoder.sample_layout import real_tokens


def predicted_ids(reconstruction: Batch) -> torch.Tensor:
    """Token types [B, n_tokens] of a reconstruction. Padding is never predicted.

    >>> predicted_ids({"tokens_id": torch.tensor([[[9.0, 1.0, 2.0]]])})
    tensor([[2]])
    """
    return reconstruction["tokens_id"][..., 1:].argmax(-1) + 1


def _over_real_tokens(errors: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Mean [B] of errors [B, T] over real tokens; 0 for an event without any."""
    return torch.where(mask, errors, 0).sum(1) / mask.sum(1).clamp(min=1)


def _event_errors(reconstruction: Batch, batch: Batch, spec: SampleSpec) -> dict[str, torch.Tensor]:
    mask = real_tokens(batch)
    # Zeros first: the gradient of a squared error with NaN is NaN, also where `where` drops it.
    cont = torch.where(mask.unsqueeze(-1), batch["tokens_cont"].float(), 0)
    squares = (reconstruction["tokens_cont"].float() - cont).square().mean(-1)
    ids = batch["tokens_id"].long()
    # Flat, because torch has no deterministic kernel of the other form on a GPU.
    logits = reconstruction["tokens_id"].float().flatten(0, 1)
    surprise = F.cross_entropy(logits, ids.flatten(), reduction="none").view_as(ids)
    errors = {
        "cont": _over_real_tokens(squares, mask),
        "id": _over_real_tokens(surprise, mask),
    }
    if spec.globals:
        difference = reconstruction["globals"].float() - batch["globals"].float()
        errors["globals"] = difference.square().mean(-1)
    return errors


def reconstruction_errors(
    reconstruction: Batch, batch: Batch, spec: SampleSpec, *, globals_beta: float = 1.0
) -> dict[str, torch.Tensor]:
    """The error of each sample [B]: `loss` and its parts.

    Parts are `cont` (mean squared error of values or pixels) and for events also `id` (cross
    entropy of the types) and `globals` (mean squared error, without its weight).
    """
    if spec.kind == "events":
        errors = _event_errors(reconstruction, batch, spec)
    else:
        name = "image" if spec.kind == "image" else "x"
        difference = reconstruction[name].float() - batch[name].float()
        errors = {"cont": difference.square().flatten(1).mean(1)}
    weights = {"globals": globals_beta}
    terms = [weights.get(name, 1.0) * error for name, error in errors.items()]
    return {"loss": torch.stack(terms).sum(0), **errors}


def reconstruction_loss(
    output: AutoencoderOutput, batch: Batch, spec: SampleSpec, *, globals_beta: float = 1.0
) -> dict[str, torch.Tensor]:
    """The reconstruction loss of a batch: `loss` and its parts `cont`, `id`, `globals`.

    Args:
        output: what the autoencoder gave for the batch.
        batch: the batch itself.
        spec: kind and sizes of its samples.
        globals_beta: weight of the globals.
    """
    errors = reconstruction_errors(output.reconstruction, batch, spec, globals_beta=globals_beta)
    return {name: error.mean() for name, error in errors.items()}


def training_loss(
    output: AutoencoderOutput, batch: Batch, spec: SampleSpec, *, globals_beta: float = 1.0
) -> dict[str, torch.Tensor]:
    """The reconstruction loss with the extra terms of the parts, such as `commitment`.

    `loss` is what to minimise; the other entries are its parts.
    """
    parts = reconstruction_loss(output, batch, spec, globals_beta=globals_beta)
    extra: Mapping[str, torch.Tensor] = output.losses
    return {**parts, **extra, "loss": parts["loss"] + sum(extra.values())}

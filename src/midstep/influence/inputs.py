"""Arguments turned into what the kernels work on, or refused with what to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import torch

from midstep.core.errors import ConfigError
from midstep.influence.anatomy import context_of
from midstep.influence.batches import SequenceBatch
from midstep.influence.optimizer_state import AdamState

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.optim import Optimizer

__all__ = [
    "adam_state_of",
    "check_fits",
    "plain_decay",
    "plain_rate",
    "sequences_of",
    "trained_parameters",
    "weights_of",
]


def sequences_of(batch: Any, model: nn.Module) -> SequenceBatch:
    """A `SequenceBatch` on the model's device, from one or from a generated batch."""
    found = batch if isinstance(batch, SequenceBatch) else batch.sequence_batch()
    device = next(model.parameters()).device
    if found.input_ids.device == device:
        return found
    mask = found.attention_mask
    return SequenceBatch(
        found.input_ids.to(device),
        found.response_mask.to(device),
        None if mask is None else mask.to(device),
    )


def check_fits(batch: SequenceBatch, model: nn.Module, which: str) -> None:
    """Refuse sequences that are longer than the model's context, and ids it has no row for."""
    context, longest = context_of(model), int(batch.lengths.max())
    if context is not None and longest > context:
        raise ConfigError(
            f"sequence {int(batch.lengths.argmax())} of {which} has {longest} tokens, the model's "
            f"context is {context}: shorten it or leave it out"
        )
    tables = [each for each in model.modules() if isinstance(each, torch.nn.Embedding)]
    words = max((each.num_embeddings for each in tables), default=None)
    low, high = int(batch.input_ids.min()), int(batch.input_ids.max())
    if low < 0 or (words is not None and high >= words):
        raise ConfigError(
            f"{which} has token ids from {low} to {high}, the model knows 0 to "
            f"{(words or 0) - 1}: use the tokenizer of this checkpoint, and a real id for padding"
        )


def weights_of(
    weights: Tensor | Sequence[float] | None, given: Any, batch: SequenceBatch
) -> tuple[Tensor, Tensor]:
    """W [N] and the weight of each token in its sequence's score [N, T]."""
    device = batch.input_ids.device
    wide = torch.float64  # on a GPU too: a model may be float64 there
    own = getattr(given, "weights", None)
    source = weights if weights is not None else own
    if source is None:
        source = torch.full((len(batch),), 1.0 / len(batch))
    values = torch.as_tensor(source).detach().to(device, wide)
    mask_NT = batch.response_mask.to(wide)  # noqa: N806 - name ends in its shape
    if values.shape not in {(len(batch),), tuple(mask_NT.shape)}:
        raise ConfigError(
            f"weights have shape {list(values.shape)}; expected [{len(batch)}], one a sequence of "
            f"the update, or {list(mask_NT.shape)}, one a token"
        )
    if not bool(values.isfinite().all()):
        raise ConfigError("a weight of the update is NaN or infinite: check rewards and advantages")
    if values.dim() == 2:
        values = values * mask_NT
    if not bool(values.any()):
        raise ConfigError(
            "every weight of the update is zero, so this batch moves nothing: in GRPO that is a "
            "group whose rewards are all equal; sample again or give other weights"
        )
    if values.dim() == 2:
        return torch.ones(len(batch), dtype=wide, device=device), values
    return values, mask_NT


def trained_parameters(model: nn.Module, wanted: Sequence[str] | None) -> dict[int, str]:
    """Names of the parameters that count, by identity."""
    names = {id(each): name for name, each in model.named_parameters() if each.requires_grad}
    if wanted is not None:
        for pattern in wanted:
            if not any(fnmatchcase(name, pattern) for name in names.values()):
                raise ConfigError(
                    f"no trained parameter is called {pattern!r}; the first are "
                    f"{', '.join(list(names.values())[:4])}"
                )
        names = {
            key: name
            for key, name in names.items()
            if any(fnmatchcase(name, pattern) for pattern in wanted)
        }
    if not names:
        raise ConfigError(
            "the model has no parameter that requires a gradient: unfreeze those that are trained"
        )
    return names


def adam_state_of(
    optimizer: Optimizer | AdamState | None, model: nn.Module, *, fresh: bool, needed: bool
) -> AdamState | None:
    """The state by name, from whichever form it was given in."""
    if optimizer is None or isinstance(optimizer, AdamState):
        return optimizer
    if not needed:
        return None
    return AdamState.from_optimizer(optimizer, model, fresh=fresh)


def plain_rate(optimizer: Any) -> float | None:
    """The learning rate of an optimizer without Adam's moments."""
    groups = getattr(optimizer, "param_groups", None)
    if groups is None or "betas" in groups[0]:
        return None
    rates = {float(group["lr"]) for group in groups}
    if len(rates) > 1:
        raise ConfigError("groups of this optimizer have several learning rates: pass lr=")
    return rates.pop()


def plain_decay(optimizer: Any, model: nn.Module) -> Mapping[str, float]:
    """Weight decay by name, of an optimizer without Adam's moments."""
    groups = getattr(optimizer, "param_groups", None)
    if groups is None or "betas" in groups[0]:
        return {}
    names = {id(each): name for name, each in model.named_parameters()}
    return {
        names[id(each)]: float(group.get("weight_decay", 0.0))
        for group in groups
        for each in group["params"]
        if id(each) in names
    }

"""Check the arguments of a kernel computation and convert them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import torch

from midstep.core.errors import ConfigError
from midstep.core.field_checks import is_number
from midstep.influence.gradients.model_parts import context_length
from midstep.influence.gradients.sequences import SequenceBatch
from midstep.influence.optimizers.adam_state import AdamState
from midstep.influence.optimizers.described_optimizers import (
    check_described,
    check_has_rate,
    is_sgd,
)
from midstep.influence.optimizers.preconditioners import (
    Preconditioner,
    PreconditionerName,
    make_preconditioner,
)

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.optim import Optimizer


def to_sequence_batch(batch: Any, model: nn.Module) -> SequenceBatch:
    """A `SequenceBatch` on the model's device, from a `SequenceBatch` or a generated batch."""
    sequences = batch if isinstance(batch, SequenceBatch) else batch.sequence_batch()
    device = next(model.parameters()).device
    if sequences.input_ids.device == device:
        return sequences
    mask = sequences.attention_mask
    return SequenceBatch(
        sequences.input_ids.to(device),
        sequences.response_mask.to(device),
        None if mask is None else mask.to(device),
    )


def check_fits(batch: SequenceBatch, model: nn.Module, which: str) -> None:
    """Raise an error for sequences longer than the context, and for ids outside the vocabulary."""
    context, longest = context_length(model), int(batch.lengths.max())
    if context is not None and longest > context:
        raise ConfigError(
            f"sequence {int(batch.lengths.argmax())} of {which} has {longest} tokens, the model's "
            f"context is {context}: shorten it or leave it out"
        )
    embeddings = [each for each in model.modules() if isinstance(each, torch.nn.Embedding)]
    # The largest table counts as the vocabulary; the others hold positions.
    vocabulary = max((each.num_embeddings for each in embeddings), default=None)
    low, high = int(batch.input_ids.min()), int(batch.input_ids.max())
    if low < 0 or (vocabulary is not None and high >= vocabulary):
        raise ConfigError(
            f"{which} has token ids from {low} to {high}, the model has rows for 0 to "
            f"{(vocabulary or 0) - 1}: use the tokenizer of this checkpoint, and a real id for "
            "padding"
        )


def loss_weights(
    weights: Tensor | Sequence[float] | None, update: Any, batch: SequenceBatch
) -> tuple[Tensor, Tensor]:
    """Weights w [N] of the loss, and the weight of each token in its sequence's score [N, T].

    Weights per token move into the second: the score of a sequence is then Σ_t w_t log p(x_t), and
    each such score has weight 1.
    """
    device = batch.input_ids.device
    dtype = torch.float64  # on a GPU too: the model may be float64 there
    batch_weights = getattr(update, "weights", None)
    source = weights if weights is not None else batch_weights
    if source is None:
        source = torch.full((len(batch),), 1.0 / len(batch))
    values = torch.as_tensor(source).detach().to(device, dtype)
    mask_NT = batch.response_mask.to(dtype)
    if values.shape not in {(len(batch),), tuple(mask_NT.shape)}:
        raise ConfigError(
            f"weights have shape {list(values.shape)}; expected [{len(batch)}], one per sequence "
            f"of the update, or {list(mask_NT.shape)}, one per token"
        )
    if not bool(values.isfinite().all()):
        raise ConfigError("a weight of the update is NaN or infinite: check rewards and advantages")
    if values.dim() == 2:
        values = values * mask_NT
    if not bool(values.any()):
        raise ConfigError(
            "every weight of the update is zero, so this batch changes nothing: in GRPO all "
            "rewards of a group are equal then; sample again or give other weights"
        )
    if values.dim() == 2:
        return torch.ones(len(batch), dtype=dtype, device=device), values
    return values, mask_NT


def trained_parameters(model: nn.Module, wanted: Sequence[str] | None) -> dict[int, str]:
    """Names of the trained parameters that match `wanted`, by identity. None matches all."""
    # By identity: `named_parameters` lists a tied weight once, but it has several names.
    names = {id(each): name for name, each in model.named_parameters() if each.requires_grad}
    if wanted is not None:
        matching: set[str] = set()
        for pattern in wanted:
            matches = {name for name in names.values() if fnmatchcase(name, pattern)}
            if not matches:
                raise ConfigError(
                    f"no trained parameter matches {pattern!r}; the first names are "
                    f"{', '.join(list(names.values())[:4])}"
                )
            matching |= matches
        names = {key: name for key, name in names.items() if name in matching}
    if not names:
        raise ConfigError(
            "no parameter of the model requires a gradient: unfreeze those that are trained"
        )
    return names


def bind_adam_state(
    optimizer: Optimizer | AdamState | None, model: nn.Module, *, fresh: bool, needed: bool
) -> AdamState | None:
    """Adam's state by name, from an optimizer or from an `AdamState`."""
    if optimizer is None or isinstance(optimizer, AdamState):
        return optimizer
    return AdamState.from_optimizer(optimizer, model, fresh=fresh) if needed else None


@dataclass(frozen=True)
class DescentRates:
    """Learning rates and weight decay of `torch.optim.SGD`, by parameter name."""

    lr: float
    """Learning rate of the fastest group."""
    ratios: Mapping[str, float]
    """Learning rate of each parameter over `lr`."""
    decay: Mapping[str, float]

    @classmethod
    def from_optimizer(
        cls, optimizer: Optimizer, model: nn.Module, names: Sequence[str]
    ) -> DescentRates:
        """The rates of the parameters `names`; an error when the optimizer lacks one."""
        by_identity = {id(each): name for name, each in model.named_parameters()}
        groups = {
            by_identity[id(each)]: group
            for group in optimizer.param_groups
            for each in group["params"]
            if id(each) in by_identity
        }
        missing = [name for name in names if name not in groups]
        if missing:
            raise ConfigError(
                f"the optimizer does not train {missing[0]!r} and {len(missing) - 1} more: give "
                "the optimizer that trains them, freeze them (requires_grad_(False)), or name the "
                "parameters that count with parameters=[…]"
            )
        rates = {name: float(groups[name]["lr"]) for name in names}
        fastest = max(rates.values())
        check_has_rate(fastest)
        return cls(
            fastest,
            {name: rate / fastest for name, rate in rates.items()},
            {name: float(groups[name]["weight_decay"]) for name in names},
        )


def step_preconditioner(
    name: PreconditionerName,
    optimizer: Optimizer | AdamState | None,
    model: nn.Module,
    names: list[str],
    *,
    lr: float | None,
    clip_factor: float = 1.0,
    fresh: bool = False,
) -> Preconditioner:
    """D of the step that `optimizer` makes next on the parameters `names` of `model`."""
    if name == "sgd" and optimizer is not None and not isinstance(optimizer, AdamState):
        check_described(optimizer, name)
        # With Adam, `sgd` is the plain inner product at rate 1, not the step of Adam.
        if is_sgd(optimizer):
            rates = DescentRates.from_optimizer(optimizer, model, names)
            return make_preconditioner(
                name,
                None,
                names,
                lr=rates.lr if lr is None else lr,
                decay=rates.decay,
                ratios=rates.ratios,
                clip_factor=clip_factor,
            )
    state = bind_adam_state(optimizer, model, fresh=fresh, needed=name != "sgd")
    return make_preconditioner(name, state, names, lr=lr, clip_factor=clip_factor)


def clipped_parameters(
    optimizer: Optimizer | AdamState | None, model: nn.Module, computing_model: nn.Module
) -> dict[int, str]:
    """Names of all trained parameters of the optimizer, by identity in `computing_model`.

    A trainer clips by the norm of all of them together. Without an optimizer: all of the model.
    """
    names = {name: id(each) for name, each in model.named_parameters() if each.requires_grad}
    if isinstance(optimizer, AdamState):
        names = {name: key for name, key in names.items() if name in optimizer.parameters}
    elif optimizer is not None:
        held = {id(each) for group in optimizer.param_groups for each in group["params"]}
        names = {name: key for name, key in names.items() if key in held}
    return {id(each): name for name, each in computing_model.named_parameters() if name in names}


_WHEN_LEFT_OUT = {
    "lr": "the optimizer's own rate",
    "max_grad_norm": "no clipping",
    "clip_factor": "no clipping",
}


def check_positive(**numbers: float | None) -> None:
    """Raise an error for numbers that would reverse the step or make it zero. None is skipped.

    >>> check_positive(lr=1e-4, max_grad_norm=None)
    >>> check_positive(max_grad_norm=-1.0)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
      ...
    midstep.core.errors.ConfigError: max_grad_norm must be a number above 0, got -1.0; ...
    """
    for name, value in numbers.items():
        if value is not None and (not is_number(value) or value <= 0):
            raise ConfigError(
                f"{name} must be a number above 0, got {value!r}; leave it out for "
                f"{_WHEN_LEFT_OUT.get(name, 'the default')}"
            )

"""Find the parts of a causal language model: hidden states, output head, blocks.

A model without these parts works too: its logits are computed whole, one micro-batch at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

if TYPE_CHECKING:
    from torch import Tensor

_CONTEXT_NAMES = ("context", "n_positions", "max_position_embeddings", "max_seq_len")


@dataclass(frozen=True, kw_only=True)
class ModelParts:
    """The parts of a model that the kernels use. `hidden` and `head` are given together or not."""

    model: nn.Module
    hidden: Callable[[Tensor], Tensor] | None
    """Token ids [B, T] to the head's input [B, T, width]; None when the model has no such parts."""
    head: nn.Linear | None
    """The linear output head; None when logits must be computed whole."""
    blocks: tuple[nn.Module, ...]
    """The blocks of the residual stream, in order; empty when not found."""

    def logits(self, input_ids: Tensor) -> Tensor:
        """Logits [B, T, V] of the whole model."""
        out: Any = self.model(input_ids)
        logits: Tensor = out if isinstance(out, torch.Tensor) else out.logits
        return logits

    def outputs(self, input_ids: Tensor) -> Tensor:
        """What `head_pass` takes: hidden states where the head is split off, else logits."""
        return self.logits(input_ids) if self.hidden is None else self.hidden(input_ids)


@contextmanager
def eval_mode(model: nn.Module, *, frozen: bool = False) -> Iterator[None]:
    """Put every module into evaluation mode, and restore the modes at the end.

    Args:
        model: changed in place while the block runs.
        frozen: parameters also stop requiring gradients, so that autograd computes none of theirs.
    """
    # Module by module: a model in training mode may hold parts that its owner keeps in eval mode.
    modes = [(module, module.training) for module in model.modules()]
    requires_grad = [(each, each.requires_grad) for each in model.parameters()] if frozen else []
    model.eval()
    if frozen:
        model.requires_grad_(requires_grad=False)
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode
        for parameter, needs in requires_grad:
            parameter.requires_grad_(needs)


@contextmanager
def requires_gradients(parameters: Collection[Tensor]) -> Iterator[None]:
    """Let frozen parameters require gradients while the block runs."""
    for parameter in parameters:
        parameter.requires_grad_()
    try:
        yield
    finally:
        for parameter in parameters:
            parameter.requires_grad_(False)  # noqa: FBT003 - its only argument


def context_length(model: nn.Module) -> int | None:
    """The longest sequence that the model accepts; None when its config has no such field."""
    config = getattr(without_adapters(model), "config", None)
    for name in _CONTEXT_NAMES:
        value = getattr(config, name, None)
        if isinstance(value, int) and value > 0:
            return value
    return None


def find_model_parts(model: nn.Module, probe_ids: Tensor) -> ModelParts:
    """Find the parts, and check on `probe_ids` that together they give the logits of the model."""
    inner = without_adapters(model)
    trunk, head = _trunk(inner), _head(inner)
    hidden = _hidden_function(inner, trunk)
    blocks = _blocks(trunk if trunk is not None else inner)
    # A model may cap or scale its logits after the head; then the parts give other numbers.
    whole = ModelParts(model=model, hidden=None, head=None, blocks=())
    if hidden is None or head is None or not _parts_match_model(whole, hidden, head, probe_ids):
        return whole
    return ModelParts(model=model, hidden=hidden, head=head, blocks=blocks)


def without_adapters(model: nn.Module) -> nn.Module:
    """The language model inside a PEFT wrapper."""
    unwrap = getattr(model, "get_base_model", None)
    return unwrap() if callable(unwrap) else model


def _trunk(model: nn.Module) -> nn.Module | None:
    if callable(getattr(model, "hidden", None)):
        return model
    prefix = getattr(model, "base_model_prefix", None)
    # Models of transformers name their trunk in `base_model_prefix`.
    base = getattr(model, prefix, None) if prefix else None
    return base if isinstance(base, nn.Module) and base is not model else None


def _head(model: nn.Module) -> nn.Linear | None:
    getter = getattr(model, "get_output_embeddings", None)
    head = getter() if callable(getter) else getattr(model, "head", None)
    # Exactly nn.Linear: a subclass (an adapter on the head) computes more than one product.
    return head if type(head) is nn.Linear else None


def _hidden_function(
    model: nn.Module, trunk: nn.Module | None
) -> Callable[[Tensor], Tensor] | None:
    if trunk is None:
        return None
    if trunk is model:
        hidden_method: Callable[[Tensor], Tensor] = model.hidden  # type: ignore[assignment]
        return hidden_method

    def hidden(input_ids: Tensor) -> Tensor:
        out: Any = trunk(input_ids=input_ids, use_cache=False)
        state: Tensor = out.last_hidden_state
        return state

    return hidden


def _blocks(trunk: nn.Module) -> tuple[nn.Module, ...]:
    """The largest list of modules of one type, counted in parameters."""
    lists = [each for each in trunk.modules() if isinstance(each, nn.ModuleList) and len(each)]
    alike = [each for each in lists if len({type(part) for part in each}) == 1]
    best = max(alike, key=lambda each: sum(p.numel() for p in each.parameters()), default=None)
    return tuple(best) if best is not None else ()


@torch.no_grad()
def _parts_match_model(
    whole: ModelParts, hidden: Callable[[Tensor], Tensor], head: nn.Module, probe_ids: Tensor
) -> bool:
    expected = whole.logits(probe_ids)
    logits = head(hidden(probe_ids)).to(expected.dtype)
    # Relative to the largest logit: the two ways round differently.
    tolerance = 1e-2 if expected.dtype in {torch.bfloat16, torch.float16} else 1e-4
    if expected.shape != logits.shape:
        return False
    return bool((expected - logits).abs().max() <= tolerance * expected.abs().max().clamp_min(1e-6))

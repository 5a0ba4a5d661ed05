"""The entropy of attention weights, head by head.

Two functions compute attention in torch: `scaled_dot_product_attention`, which does not return its
weights, and `multi_head_attention_forward`, which `nn.MultiheadAttention` calls. Calls of both are
intercepted during the model's forward pass, and the weights are computed again from their inputs.
"""
# ruff: noqa: N803, N806 - names end in their shape

from __future__ import annotations

import inspect
import math
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from midstep.control.capture.deferred_columns import DeferredColumns
from midstep.control.panels import Field, Level, Panel, Status
from midstep.session.hooks.hook import Hook
from midstep.session.hooks.hook_measures import attention_entropy, can_be_hooked

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torch.utils.hooks import RemovableHandle

SAMPLES = 8
"""Sequences of a batch whose weights are computed; each needs memory of queries times keys."""
_FUSED = functional.scaled_dot_product_attention
_MULTI_HEAD = functional.multi_head_attention_forward


class AttentionEntropy(Hook):
    """A table: per head the mean entropy of its attention weights, and the largest weight.

    It covers `nn.MultiheadAttention` (also inside `nn.TransformerEncoderLayer`) and every module
    that calls `torch.nn.functional.scaled_dot_product_attention`, before dropout, for the first
    eight sequences of a batch. Attention written as matmul and softmax, kernels of other libraries
    and compiled models are not seen.

    >>> AttentionEntropy().key
    'attention entropy'
    """

    key = "attention entropy"
    panel = Panel(
        kind="table",
        title="Attention entropy",
        label="name",
        fields={
            "entropy": Field(label="Entropy", precision=3, unit="nats"),
            "share": Field(label="Of uniform", precision=3),
            "largest": Field(label="Largest weight", precision=3),
        },
        status=Status(
            field="share",
            levels=(
                Level(below=0.05, word="collapsed", tone="bad"),
                Level(above=0.98, word="uniform", tone="warn"),
            ),
            otherwise=Level(word="attends", tone="good"),
        ),
    )

    def __init__(self) -> None:
        self._module_names: list[str] = []
        """Names of the modules whose forward is running, the innermost last."""
        self._entropies: dict[str, tuple[torch.Tensor, int]] = {}
        self._mode: _AttentionMode | None = None
        self._error: Exception | None = None

    def begin_step(self, model: nn.Module) -> None:
        """Drop the data of the last step."""
        self._entropies = {}

    def install(self, model: nn.Module, guard: Callable[..., None]) -> list[RemovableHandle]:
        """Intercept attention during the model's forward pass, and track the running module."""
        if not can_be_hooked(model):
            return []
        handles = []
        for name, module in model.named_modules():
            if module is not model and _may_attend(module):
                handles += [
                    module.register_forward_pre_hook(self._entering(name)),
                    module.register_forward_hook(self._leaving, always_call=True),
                ]
        # `prepend`, and registered last: the model's own hooks enclose those of its modules.
        handles.append(
            model.register_forward_pre_hook(lambda *_: guard(self._begin_pass), prepend=True)
        )
        handles.append(model.register_forward_hook(lambda *_: self._end_pass(), always_call=True))
        return handles

    def _entering(self, name: str) -> Callable[..., None]:
        return lambda *_: self._module_names.append(name)

    def _leaving(self, *_: Any) -> None:
        if self._module_names:
            self._module_names.pop()

    def _begin_pass(self) -> None:
        if self._mode is None:
            self._module_names = []
            self._mode = _AttentionMode(self._note)
            self._mode.__enter__()  # type: ignore[no-untyped-call]

    def _end_pass(self) -> None:
        if self._mode is not None:
            mode, self._mode = self._mode, None
            mode.__exit__(None, None, None)  # type: ignore[no-untyped-call]
            self._error = self._error or mode.error

    def _note(self, weights_BHTS: torch.Tensor) -> None:
        name = self._module_names[-1] if self._module_names else "model"
        self._entropies[name] = (attention_entropy(weights_BHTS), weights_BHTS.shape[-1])

    def after_step(self, model: nn.Module) -> Mapping[str, Any] | None:
        """The table: one row per head. A reader makes the columns, so nothing waits here."""
        if self._error is not None:  # raised here and not in the forward pass of the user
            raise self._error
        entropies, self._entropies = self._entropies, {}
        if not entropies:
            return None
        names, shares, numbers = [], [], []
        for name, (heads_H2, keys) in entropies.items():
            numbers.append(heads_H2)
            names += [f"{name} head {head}" for head in range(len(heads_H2))]
            shares += [1 / math.log(max(keys, 2))] * len(heads_H2)  # entropy of uniform weights
        return DeferredColumns(_head_columns, names=names, shares=shares, numbers=numbers)


def _head_columns(
    names: list[str], shares: list[float], numbers: list[torch.Tensor]
) -> dict[str, Any]:
    entropy, largest = torch.cat([heads_H2.cpu() for heads_H2 in numbers]).unbind(dim=1)
    share = entropy * torch.tensor(shares)
    return {"name": names, "entropy": entropy, "share": share, "largest": largest}


def _may_attend(module: nn.Module) -> bool:
    """Whether a module may compute attention; of torch's own modules only one does."""
    is_torch = type(module).__module__.startswith("torch.nn.")
    return not is_torch or isinstance(module, nn.MultiheadAttention)


class _AttentionMode(TorchFunctionMode):
    """Passes the weights of each attention call to `note`; the call itself is unchanged."""

    def __init__(self, note: Callable[[torch.Tensor], None]) -> None:
        super().__init__()
        self._note = note
        self.error: Exception | None = None

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in (_FUSED, _MULTI_HEAD) and self.error is None and torch.is_grad_enabled():
            try:
                with torch.no_grad():
                    self._note(attention_weights(func, args, kwargs))
            except Exception as error:  # noqa: BLE001 - raised after the step; the pass continues
                self.error = error
        return func(*args, **kwargs)


def attention_weights(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor:
    """The weights of one call of either function, before dropout, [B, H, T, S]."""
    if func is _FUSED:
        return _fused_weights(*args, **kwargs)
    return _multi_head_weights(**inspect.signature(func).bind(*args, **kwargs).arguments)


def _fused_weights(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,  # noqa: ARG001 - signature of torch
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,  # noqa: ARG001 - signature of torch
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    query_BHTE, key_BHSE = (_with_heads(each.detach())[:SAMPLES] for each in (query, key))
    if enable_gqa:
        key_BHSE = key_BHSE.repeat_interleave(query_BHTE.shape[1] // key_BHSE.shape[1], dim=1)
    scores = query_BHTE @ key_BHSE.mT * (query.shape[-1] ** -0.5 if scale is None else scale)
    if is_causal:
        ones = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device)
        scores = scores.masked_fill(ones.triu(1), -torch.inf)
    if attn_mask is not None:
        mask = attn_mask[:SAMPLES] if attn_mask.dim() == query.dim() else attn_mask
        mask = mask.unsqueeze(1) if mask.dim() == query.dim() == 3 else mask
        is_choice = mask.dtype == torch.bool
        scores = scores.masked_fill(~mask, -torch.inf) if is_choice else scores + mask
    return scores.softmax(dim=-1)


def _with_heads(tensor: torch.Tensor) -> torch.Tensor:
    """[B, H, T, E]: one head where there are none."""
    return tensor.unsqueeze(1) if tensor.dim() == 3 else tensor


def _multi_head_weights(**given: Any) -> torch.Tensor:
    """The weights that the function returns, without dropout, so that no random number is drawn."""
    query, heads = given["query"], given["num_heads"]
    if query.dim() == 3:
        for name in ("query", "key", "value"):
            given[name] = given[name][:, :SAMPLES]
        if given.get("key_padding_mask") is not None:
            given["key_padding_mask"] = given["key_padding_mask"][:SAMPLES]
        mask = given.get("attn_mask")
        if mask is not None and mask.dim() == 3:
            given["attn_mask"] = mask[: SAMPLES * heads]
    no_dropout = {"training": False, "dropout_p": 0.0, "need_weights": True}
    weights = _MULTI_HEAD(**{**given, **no_dropout, "average_attn_weights": False})[1]
    if weights is None:
        raise RuntimeError("multi_head_attention_forward returned no weights")
    return weights.unsqueeze(0) if weights.dim() == 3 else weights

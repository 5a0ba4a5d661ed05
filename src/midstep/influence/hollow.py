"""The last linear map of a block, left out when the block runs again.

What it adds to the residual stream is read by nobody the second time: only the gradient passes
through it. That this is so is proved on a short probe, with NaN and with 0 for its output.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import torch
from torch import nn

from midstep.influence.borders import BorderStore
from midstep.influence.stems import Stem

if TYPE_CHECKING:
    from torch import Tensor

    from midstep.influence.anatomy import Anatomy

__all__ = ["hollow", "hollow_parts"]

NEAR = {torch.float64: 1e-9, torch.float32: 1e-4}
NEAR_HALF = 0.05
FILLINGS = (float("nan"), 0.0)
"""NaN spreads from wherever values are read; 0 tells apart what only compares them."""


class _Hollow(torch.autograd.Function):
    """A linear map whose output is a constant and whose input's gradient is right."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, weight: Tensor, filling: float) -> Tensor:
        ctx.save_for_backward(weight)
        return inputs.new_full((), filling).expand(*inputs.shape[:-1], len(weight))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        (weight,) = ctx.saved_tensors
        return grads[0] @ weight, None, None


@contextmanager
def hollow(module: nn.Linear | None, filling: float = 0.0) -> Iterator[None]:
    """While this lasts, `module` gives a constant; None: nothing changes."""
    if module is None:
        yield
        return

    def forward(inputs: Tensor) -> Tensor:
        made: Tensor = _Hollow.apply(inputs, module.weight, filling)  # type: ignore[no-untyped-call]
        return made

    module.forward = forward  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        del module.forward


_proved: WeakKeyDictionary[nn.Module, list[nn.Linear | None]] = WeakKeyDictionary()


def hollow_parts(anatomy: Anatomy, input_ids: Tensor) -> list[nn.Linear | None]:
    """For each block the linear map that may be left out; proved once for a model."""
    if anatomy.model not in _proved:
        _proved[anatomy.model] = _find(anatomy, input_ids)
    return _proved[anatomy.model]


def _find(anatomy: Anatomy, input_ids: Tensor) -> list[nn.Linear | None]:
    if anatomy.hidden is None:
        return []
    with BorderStore() as store:
        stem = Stem(anatomy.blocks, store, 0)
        called: list[list[nn.Module]] = []
        with torch.enable_grad(), stem, _calls_of(anatomy.blocks, called):
            anatomy.hidden(input_ids)
        return [
            _proved_part(block, called[depth], stem, store.take((0, depth)), depth)
            for depth, block in enumerate(anatomy.blocks)
        ]


@contextmanager
def _calls_of(blocks: Sequence[nn.Module], called: list[list[nn.Module]]) -> Iterator[None]:
    """Notes the modules with parameters of their own, in the order each block calls them."""
    handles = []
    for block in blocks:
        calls: list[nn.Module] = []
        called.append(calls)
        for part in block.modules():
            if any(True for _ in part.parameters(recurse=False)):
                handles.append(
                    part.register_forward_hook(lambda part, *_, calls=calls: calls.append(part))
                )
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _proved_part(
    block: nn.Module, calls: list[nn.Module], stem: Stem, start: Tensor, depth: int
) -> nn.Linear | None:
    last = calls[-1] if calls else None
    if type(last) is not nn.Linear or calls.count(last) != 1 or "forward" in vars(last):
        return None
    true = _input_gradient(block, stem, start, depth, nullcontext())
    near = NEAR.get(true.dtype, NEAR_HALF) * true.double().norm()
    for filling in FILLINGS:
        other = _input_gradient(block, stem, start, depth, hollow(last, filling))
        if not bool((other - true).double().norm() <= near):  # NaN counts as different
            return None
    return last


def _input_gradient(
    block: nn.Module,
    stem: Stem,
    start: Tensor,
    depth: int,
    around: AbstractContextManager[None],
) -> Tensor:
    """What a fixed gradient of the block's output becomes at its input."""
    inputs = start.detach().requires_grad_()
    args, kwargs = stem.with_first(depth, inputs)
    with torch.enable_grad(), around:
        out = block(*args, **kwargs)
    out = out[0] if isinstance(out, tuple) else out
    span = torch.arange(out.numel(), device=out.device).view_as(out)
    torch.autograd.backward(out, (span * 0.7).sin().to(out.dtype))
    return torch.zeros_like(inputs) if inputs.grad is None else inputs.grad

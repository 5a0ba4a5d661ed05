"""Gradients of the loss of each sample of a batch, for any model: all at once, or one by one.

Shapes: B samples of the batch, C samples of a chunk, P trained parameters in one row.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value, vmap

SampleLoss = Callable[[nn.Module, Any], Tensor]
"""The loss of a batch: of the model and the batch, one number."""
CHUNK_BYTES = 256 << 20
"""Gradients that are made at a time."""


def sample_count(batch: Any) -> int | None:
    """How many samples a batch has: the length that all its tensors share; None if none do.

    >>> sample_count({"x": torch.zeros(4, 2), "y": torch.zeros(4)})
    4
    """
    lengths = {len(leaf) if leaf.dim() else 0 for leaf in _tensors(batch)}
    return lengths.pop() if len(lengths) == 1 else None


def take_sample(batch: Any, at: int) -> Any:
    """One sample as a batch of its own; what is not a tensor or a list a sample stays whole."""
    count = sample_count(batch)
    return _map_tensors(batch, lambda leaf: leaf[at : at + 1], at, count)


def _tensors(tree: Any) -> Iterator[Tensor]:
    if isinstance(tree, Tensor):
        yield tree
    elif isinstance(tree, Mapping):
        for each in tree.values():
            yield from _tensors(each)
    elif isinstance(tree, list | tuple):
        for each in tree:
            yield from _tensors(each)


def _map_tensors(tree: Any, change: Callable[[Tensor], Tensor], at: int, count: int | None) -> Any:
    if isinstance(tree, Tensor):
        return change(tree)
    if isinstance(tree, Mapping):
        return {key: _map_tensors(each, change, at, count) for key, each in tree.items()}
    if not isinstance(tree, list | tuple):
        return tree
    if any(True for _ in _tensors(tree)):
        items = [_map_tensors(each, change, at, count) for each in tree]
        return type(tree)(*items) if hasattr(tree, "_fields") else type(tree)(items)
    return tree[at : at + 1] if len(tree) == count else tree


def flatten_gradients(gradients: Mapping[str, Tensor], names: list[str]) -> Tensor:
    """Gradients [C, …] of some parameters as rows [C, P], at least 32 bits each."""
    rows = [gradients[name].flatten(1) for name in names]
    wide = torch.promote_types(rows[0].dtype, torch.float32)
    return torch.cat([row.to(wide) for row in rows], dim=1)


def sample_gradients(
    model: nn.Module,
    loss_of: SampleLoss,
    batch: Any,
    weights: Mapping[str, Tensor],
    *,
    together: bool = True,
) -> Iterator[tuple[Tensor, Tensor]]:
    """Losses [C] and gradients [C, P] of all samples in order, chunk by chunk.

    The model itself is not touched. What `vmap` cannot take is done sample by sample.

    Args:
        model: in the mode in which it is to be looked at.
        loss_of: of the model and a batch of any number of samples.
        batch: tensors, or a tree of them.
        weights: parameters that count, with the values at which to look.
        together: try `vmap` first.
    """
    count = sample_count(batch) or 0
    size = sum(each.numel() for each in weights.values())
    step = max(1, min(count, CHUNK_BYTES // (4 * max(size, 1))))
    loss = _LossModule(model, loss_of, list(weights))
    for first in range(0, count, step):
        chunk = range(first, min(first + step, count))
        computed = _vmap_gradients(loss, batch, weights, chunk) if together else None
        together = computed is not None
        yield computed if computed is not None else _loop_gradients(loss, batch, weights, chunk)


def loss_at(
    model: nn.Module, loss_of: SampleLoss, batch: Any, weights: Mapping[str, Tensor]
) -> float:
    """The loss of a whole batch with other values of some parameters."""
    with torch.no_grad():
        return float(_LossModule(model, loss_of, list(weights)).at(weights, batch))


class _LossModule(nn.Module):
    """The loss as a module, so that other parameters can be put under whatever calls the model."""

    def __init__(self, model: nn.Module, loss_of: SampleLoss, names: list[str]) -> None:
        super().__init__()
        self.model, self._loss_of = model, loss_of
        self._uses = _parameter_uses(model, names)

    def forward(self, batch: Any) -> Tensor:
        return self._loss_of(self.model, batch)

    def at(self, weights: Mapping[str, Tensor], batch: Any) -> Tensor:
        """The loss with these values in every place where a parameter is used."""
        overrides = {f"model.{use}": weights[name] for use, name in self._uses.items()}
        loss: Tensor = functional_call(self, overrides, (batch,), tie_weights=False)
        return loss.reshape(())


def _vmap_gradients(
    loss: _LossModule, batch: Any, weights: Mapping[str, Tensor], chunk: range
) -> tuple[Tensor, Tensor] | None:
    """A chunk by `vmap`; None where that is not possible."""
    leaves = [leaf[chunk.start : chunk.stop] for leaf in _tensors(batch)]
    if _has_lists(batch, sample_count(batch)):
        return None

    def sample_loss(parameters: dict[str, Tensor], *sample: Tensor) -> Tensor:
        rest = iter(sample)
        return loss.at(parameters, _map_tensors(batch, lambda _leaf: next(rest)[None], 0, None))

    try:
        with warnings.catch_warnings():
            # Where vmap has no rule of its own it says so and goes one by one.
            warnings.filterwarnings("ignore", "There is a performance drop", UserWarning)
            gradients, losses = vmap(
                grad_and_value(sample_loss),
                in_dims=(None, *(0 for _ in leaves)),
                randomness="different",
            )(dict(weights), *leaves)
    except Exception:  # noqa: BLE001 - the loop does the same; an error of the user's comes there
        return None
    return losses.detach(), flatten_gradients(gradients, list(weights)).detach()


def _parameter_uses(model: nn.Module, names: list[str]) -> dict[str, str]:
    """Every place where a parameter is used, once for each module, by the parameter's name.

    A weight may be shared by several modules, and a module may have several names. Torch's own
    tying takes the names of one module for several places, and leaves it changed.
    """
    wanted = {id(model.get_parameter(name)): name for name in names}
    uses: dict[str, str] = {}
    for prefix, module in model.named_modules():
        for own, parameter in module.named_parameters(recurse=False, remove_duplicate=False):
            if id(parameter) in wanted:
                uses[f"{prefix}.{own}" if prefix else own] = wanted[id(parameter)]
    return uses


def _has_lists(tree: Any, count: int | None) -> bool:
    """Whether samples also have parts that are no tensors, such as texts."""
    if isinstance(tree, Mapping):
        return any(_has_lists(each, count) for each in tree.values())
    if not isinstance(tree, list | tuple):
        return False
    if any(True for _ in _tensors(tree)):
        return any(_has_lists(each, count) for each in tree)
    return len(tree) == count


def _loop_gradients(
    loss: _LossModule, batch: Any, weights: Mapping[str, Tensor], chunk: range
) -> tuple[Tensor, Tensor]:
    leaves = {name: each.detach().clone().requires_grad_() for name, each in weights.items()}
    losses, rows = [], []
    with torch.enable_grad():
        for at in chunk:
            sample_loss = loss.at(leaves, take_sample(batch, at))
            grads = torch.autograd.grad(sample_loss, list(leaves.values()), allow_unused=True)
            losses.append(sample_loss.detach())
            gradients = {
                name: (torch.zeros_like(weight) if each is None else each)[None]
                for (name, weight), each in zip(leaves.items(), grads, strict=True)
            }
            rows.append(flatten_gradients(gradients, list(leaves)).detach())
    return torch.stack(losses), torch.cat(rows)

"""Gradients of the loss of each sample in a batch, for any model: with `vmap`, or in a loop.

Shapes: B samples of the batch, C samples of a chunk, P trained parameters in one row.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value, vmap

SampleLoss = Callable[[nn.Module, Any], Tensor]
"""Computes the loss of a batch, one number, from the model and the batch."""
CHUNK_BYTES = 256 << 20
"""Memory for the gradients of one chunk of samples."""


def sample_count(batch: Any) -> int | None:
    """The number of samples: the length that all tensors of a batch share, or None.

    >>> sample_count({"x": torch.zeros(4, 2), "y": torch.zeros(4)})
    4
    """
    lengths = {len(leaf) if leaf.dim() else 0 for leaf in _tensors(batch)}
    return lengths.pop() if len(lengths) == 1 else None


def take_sample(batch: Any, at: int) -> Any:
    """One sample as a batch of one. Parts that are not one per sample are passed on whole."""
    return take_samples(batch, [at])


def take_samples(batch: Any, rows: Sequence[int]) -> Any:
    """Some samples as a batch, in this order; the same one may be taken twice."""
    index = torch.tensor(list(rows))
    return _map_tensors(batch, lambda leaf: leaf[index.to(leaf.device)], rows, sample_count(batch))


def _tensors(tree: Any) -> Iterator[Tensor]:
    if isinstance(tree, Tensor):
        yield tree
    elif isinstance(tree, Mapping | list | tuple):
        for each in tree.values() if isinstance(tree, Mapping) else tree:
            yield from _tensors(each)


def _map_tensors(
    tree: Any, change: Callable[[Tensor], Tensor], rows: Sequence[int], count: int | None
) -> Any:
    if isinstance(tree, Tensor):
        return change(tree)
    if isinstance(tree, Mapping):
        return {key: _map_tensors(each, change, rows, count) for key, each in tree.items()}
    if not isinstance(tree, list | tuple):
        return tree
    if any(True for _ in _tensors(tree)):
        items = [_map_tensors(each, change, rows, count) for each in tree]
        # A named tuple takes its fields one by one.
        return type(tree)(*items) if hasattr(tree, "_fields") else type(tree)(items)
    if len(tree) != count:
        return tree
    items = [tree[row] for row in rows]
    return items if isinstance(tree, list) else tuple(items)


def flatten_gradients(gradients: Mapping[str, Tensor], names: list[str]) -> Tensor:
    """Gradients [C, …] by name as rows [C, P], in float32 or wider."""
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

    The arguments are those of `group_gradients`.
    """
    groups = [[at] for at in range(sample_count(batch) or 0)]
    return group_gradients(model, loss_of, batch, weights, groups, together=together)


def group_gradients(
    model: nn.Module,
    loss_of: SampleLoss,
    batch: Any,
    weights: Mapping[str, Tensor],
    groups: Sequence[Sequence[int]],
    *,
    together: bool = True,
) -> Iterator[tuple[Tensor, Tensor]]:
    """Losses [C] and gradients [C, P] of batches of some samples each, in order, chunk by chunk.

    The model is not changed. Where `vmap` fails, groups are computed one by one.

    Args:
        model: in the mode in which its gradients are wanted.
        loss_of: computes the loss of a batch of any number of samples.
        batch: tensors, or a tree of them.
        weights: values of the parameters that count, by name.
        groups: the samples of each group, by position; all groups have the same size.
        together: try `vmap` first.
    """
    size = sum(each.numel() for each in weights.values())
    # 4 bytes per value: gradients are flattened to float32.
    step = max(1, min(len(groups), CHUNK_BYTES // (4 * max(size, 1))))
    loss = _LossModule(model, loss_of, list(weights))
    for first in range(0, len(groups), step):
        chunk = groups[first : first + step]
        computed = _vmap_gradients(loss, batch, weights, chunk) if together else None
        # What failed once fails for every chunk: the following chunks go to the loop at once.
        together = computed is not None
        yield computed if computed is not None else _loop_gradients(loss, batch, weights, chunk)


class _LossModule(nn.Module):
    """The loss as a module, so that `functional_call` can replace parameters of the inner model."""

    def __init__(self, model: nn.Module, loss_of: SampleLoss, names: list[str]) -> None:
        super().__init__()
        self.model, self._loss_of = model, loss_of
        self._uses = _parameter_uses(model, names)

    def forward(self, batch: Any) -> Tensor:
        return self._loss_of(self.model, batch)

    def at(self, weights: Mapping[str, Tensor], batch: Any) -> Tensor:
        """The loss with these values wherever the parameters are used."""
        overrides = {f"model.{use}": weights[name] for use, name in self._uses.items()}
        loss: Tensor = functional_call(self, overrides, (batch,), tie_weights=False)
        return loss.reshape(())


def _vmap_gradients(
    loss: _LossModule, batch: Any, weights: Mapping[str, Tensor], chunk: Sequence[Sequence[int]]
) -> tuple[Tensor, Tensor] | None:
    """A chunk by `vmap`; None when the model or the batch does not allow it."""
    index = torch.tensor([list(group) for group in chunk])
    leaves = [leaf[index.to(leaf.device)] for leaf in _tensors(batch)]
    if _has_lists(batch, sample_count(batch)):
        return None

    def group_loss(parameters: dict[str, Tensor], *group: Tensor) -> Tensor:
        rest = iter(group)
        return loss.at(parameters, _map_tensors(batch, lambda _leaf: next(rest), (), None))

    try:
        with warnings.catch_warnings():
            # Operations without a rule for vmap (fused attention) warn and run one by one.
            warnings.filterwarnings("ignore", "There is a performance drop", UserWarning)
            gradients, losses = vmap(
                grad_and_value(group_loss),
                in_dims=(None, *(0 for _ in leaves)),
                # Dropout draws per sample, as it does in the loop.
                randomness="different",
            )(dict(weights), *leaves)
    except Exception:  # noqa: BLE001 - the loop raises a user's error again
        return None
    return losses.detach(), flatten_gradients(gradients, list(weights)).detach()


def _parameter_uses(model: nn.Module, names: list[str]) -> dict[str, str]:
    """The parameter's name for every path under which the model uses it.

    A weight may be shared by several modules, and a module may have several names. `tie_weights` of
    torch treats the names of one module as several uses, and leaves the module changed.
    """
    wanted = {id(model.get_parameter(name)): name for name in names}
    uses: dict[str, str] = {}
    for prefix, module in model.named_modules():
        for attribute, parameter in module.named_parameters(recurse=False, remove_duplicate=False):
            if id(parameter) in wanted:
                uses[f"{prefix}.{attribute}" if prefix else attribute] = wanted[id(parameter)]
    return uses


def _has_lists(tree: Any, count: int | None) -> bool:
    """Whether the batch has lists with one entry per sample, such as texts."""
    if isinstance(tree, Mapping):
        return any(_has_lists(each, count) for each in tree.values())
    if not isinstance(tree, list | tuple):
        return False
    if any(True for _ in _tensors(tree)):
        return any(_has_lists(each, count) for each in tree)
    return len(tree) == count


def _loop_gradients(
    loss: _LossModule, batch: Any, weights: Mapping[str, Tensor], chunk: Sequence[Sequence[int]]
) -> tuple[Tensor, Tensor]:
    leaves = {name: each.detach().clone().requires_grad_() for name, each in weights.items()}
    losses, rows = [], []
    with torch.enable_grad():
        for group in chunk:
            group_loss = loss.at(leaves, take_samples(batch, group))
            grads = torch.autograd.grad(group_loss, list(leaves.values()), materialize_grads=True)
            losses.append(group_loss.detach())
            gradients = {name: each[None] for name, each in zip(leaves, grads, strict=True)}
            rows.append(flatten_gradients(gradients, list(leaves)).detach())
    return torch.stack(losses), torch.cat(rows)

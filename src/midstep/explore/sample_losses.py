"""The loss of each sample of a batch, from the output that a step computed and its targets.

It is the loss of that sample as a batch of one. A loss of torch is computed for all samples at
once. Any other one is called on a copy of itself: with `vmap`, and where that fails, sample by
sample. No model is called, nothing is changed, and nothing waits for a device.

Shapes: B samples, R = B · G rows of the inputs, G rows of each sample.
"""

# ruff: noqa: N803, N806, N815 - names end in their shape
from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.func import vmap

from midstep.control.capture.host_copy import capture_context
from midstep.data.random_state import RandomState, preserve_rng
from midstep.explore.known_losses import known_loss, wide
from midstep.explore.loss_copies import NotCopiedError, copy_loss, uncompiled
from midstep.explore.tensor_trees import detached, leaves, map_leaves, tensors_in

MOST_CALLS = 4096
"""Samples of a batch beyond this are not computed one by one."""
VMAP_ELEMENTS = 16 << 20
"""Elements of the inputs that `vmap` gets together."""
DRAWS = "the loss draws random numbers, so the loss of one sample cannot be computed again"


@dataclass(frozen=True, kw_only=True)
class SampleLosses:
    """The losses of single samples, and what is needed to combine them; on the loss's device."""

    losses_B: Tensor | None = None
    """The loss of each sample as a batch of one; None if there is a reason."""
    counts: tuple[Tensor, ...] = ()
    """What the mean over the batch may be weighted by, each [B], such as counted tokens."""
    batch_loss: Any = None
    """The loss of the whole batch; None if it is unknown."""
    epsilon: float = 0.0
    """Precision of the type in which the batch's loss was computed."""
    reason: str | None = None
    """Why there are no losses, or why they may not combine to that of the batch."""


def sample_losses(
    loss_fn: Any,
    *inputs: Any,
    named: Mapping[str, Any] | None = None,
    samples: int | None = None,
    batch_loss: Any = None,
    rows_first: bool = False,
) -> SampleLosses:
    """The loss of each sample as a batch of one, for any loss.

    It never raises because of the loss: a problem is the `reason` of the result.

    Args:
        loss_fn: a module or a function; it is not called itself if it may have state.
        inputs: what it was called with: the output of the model and the targets, as a rule.
        named: its keyword arguments.
        samples: in the batch; the rows of the first tensor if left out. A flattened output, such
            as that of a language model, has several rows for each sample.
        batch_loss: what it returned for the batch.
        rows_first: the rows were flattened from [G, B], not from [B, G].

    >>> sample_losses(torch.nn.MSELoss(), torch.tensor([1.0, 3.0]), torch.zeros(2)).losses_B
    tensor([1., 9.])
    >>> loss = sample_losses(lambda output, target: output.mean() - target, torch.ones(2), 1.0)
    >>> loss.losses_B
    tensor([0., 0.])
    """
    named = {} if named is None else named
    try:
        with capture_context(), warnings.catch_warnings():
            # A loss that warns of its inputs has warned the user in the step itself.
            warnings.simplefilter("ignore")
            rows = _Rows.from_inputs(inputs, named, samples, rows_first=rows_first)
            return _compute(uncompiled(loss_fn), inputs, named, rows, detached(batch_loss))
    except (_NotPossibleError, NotCopiedError) as error:
        return SampleLosses(reason=str(error))
    except Exception as error:  # noqa: BLE001 - the loss is code of the user
        return SampleLosses(reason=f"{type(error).__name__}: {str(error)[:160]}")


class _NotPossibleError(Exception):
    """The losses of single samples cannot be computed; the text says why."""


@dataclass(frozen=True, kw_only=True)
class _Rows:
    """How the rows of the inputs belong to the samples."""

    samples: int
    rows: int
    rows_first: bool = False

    @classmethod
    def from_inputs(
        cls,
        inputs: Sequence[Any],
        named: Mapping[str, Any],
        samples: int | None,
        *,
        rows_first: bool,
    ) -> _Rows:
        tensors = list(tensors_in((inputs, named)))
        for each in tensors:
            if type(each) not in (Tensor, torch.nn.Parameter) or each.layout is not torch.strided:
                raise _NotPossibleError(f"the loss was called with a {type(each).__name__}")
        first = next((each for each in tensors if each.dim()), None)
        if first is None:
            raise _NotPossibleError("the loss was called without a tensor")
        rows = len(first)
        count = rows if samples is None else samples
        if not count or rows % count:
            raise _NotPossibleError(
                f"the loss was called with {rows:,} rows for a batch of {count:,} samples"
            )
        return cls(samples=count, rows=rows, rows_first=rows_first and rows > count)

    def ordered(self, rows_R: Tensor) -> Tensor:
        """Rows in the order of the samples."""
        if not self.rows_first:
            return rows_R
        return self.split(rows_R).flatten(0, 1)

    def split(self, rows_R: Tensor) -> Tensor:
        """[R, …] as [B, G, …]."""
        rows, *rest = rows_R.shape
        if self.rows_first:
            return rows_R.reshape(rows // self.samples, self.samples, *rest).transpose(0, 1)
        return rows_R.reshape(self.samples, rows // self.samples, *rest)

    def has_rows(self, value: Any) -> bool:
        """Whether a value has one entry for each row, or for each sample."""
        return (
            isinstance(value, Tensor)
            and value.dim() > 0
            and len(value) in (self.rows, self.samples)
        )


def _compute(
    loss_fn: Any, inputs: Sequence[Any], named: Mapping[str, Any], rows: _Rows, batch_loss: Any
) -> SampleLosses:
    loss = known_loss(loss_fn, inputs, named)
    if loss is not None:
        sums_B, counts_B = loss.sums_and_counts(rows.samples, rows.ordered)
        is_sum = loss.reduction == "sum"
        return SampleLosses(
            losses_B=sums_B if is_sum else sums_B / counts_B,
            counts=(counts_B,),
            batch_loss=_scalar(batch_loss),
            epsilon=_epsilon(batch_loss),
        )
    losses_B, draws = _each_sample(loss_fn, inputs, named, rows)
    return SampleLosses(
        losses_B=losses_B,
        counts=_possible_counts(inputs, named, rows),
        batch_loss=_scalar(batch_loss),
        epsilon=max(_epsilon(batch_loss), *map(_epsilon, leaves((inputs, named)))),
        reason=DRAWS if draws else None,
    )


# -- any loss -------------------------------------------------------------------------------------


def _each_sample(
    loss_fn: Any, inputs: Sequence[Any], named: Mapping[str, Any], rows: _Rows
) -> tuple[Tensor, bool]:
    """The loss [B] of each sample, and whether computing it drew random numbers."""
    args = map_leaves((tuple(inputs), dict(named)), lambda each: _prepared(each, rows))
    with preserve_rng():
        before = RandomState.take()
        losses_B = _by_vmap(loss_fn, args, rows)
        if losses_B is None:
            losses_B = _one_by_one(loss_fn, args, rows)
        after = RandomState.take()
        draws = not before.same(after) or not all(map(torch.equal, before.cuda, after.cuda))
    return losses_B, draws


class _PerSample:
    """A tensor [B, G, …]: it is given to the loss sample by sample."""

    def __init__(self, values: Tensor) -> None:
        self.values = values


def _prepared(value: Any, rows: _Rows) -> Any:
    """The input with its rows grouped by sample; small float types become float32."""
    if not isinstance(value, Tensor):
        return value
    value = wide(value.detach())
    if not rows.has_rows(value):
        return value
    return _PerSample(rows.split(value) if len(value) == rows.rows else value[:, None])


def _by_vmap(loss_fn: Any, args: Any, rows: _Rows) -> Tensor | None:
    """All samples with one call, in pieces; None if the loss cannot be called in this way."""
    parts = [each.values for each in leaves(args) if isinstance(each, _PerSample)]
    size = max(1, sum(each.numel() for each in parts) // rows.samples)
    step = max(1, VMAP_ELEMENTS // size)
    try:
        call = copy_loss(loss_fn)

        def loss_of(*given: Tensor) -> Tensor:
            return _one_loss(_call(call, args, iter(given)))

        pieces = [
            vmap(loss_of)(*(each[first : first + step] for each in parts))
            for first in range(0, rows.samples, step)
        ]
    except NotCopiedError:
        raise
    except Exception:  # noqa: BLE001 - such as `.item()` in the loss; what it raises has no class
        return None
    return torch.cat(pieces)


def _one_by_one(loss_fn: Any, args: Any, rows: _Rows) -> Tensor:
    if rows.samples > MOST_CALLS:
        raise _NotPossibleError(f"it must be called for each of {rows.samples:,} samples")
    call = copy_loss(loss_fn)
    parts = [each.values for each in leaves(args) if isinstance(each, _PerSample)]
    losses = [
        _one_loss(_call(call, args, iter([each[sample] for each in parts])))
        for sample in range(rows.samples)
    ]
    return torch.stack(losses)


def _call(call: Callable[..., Any], args: Any, parts: Any) -> Any:
    """Call the loss with the next part in place of each tensor that has one for each sample."""
    given, named = map_leaves(
        args, lambda leaf: next(parts) if isinstance(leaf, _PerSample) else leaf
    )
    return call(*given, **named)


def _one_loss(output: Any) -> Tensor:
    """The loss in what a loss returned: itself, its entry `loss`, or the first part."""
    if isinstance(output, Mapping) and "loss" in output:
        output = output["loss"]
    elif isinstance(output, list | tuple) and output:
        output = output[0]
    if isinstance(output, int | float):
        return torch.tensor(float(output))
    if not isinstance(output, Tensor):
        raise _NotPossibleError(f"it returned a {type(output).__name__}")
    return output.detach().float().mean()


def _possible_counts(
    inputs: Sequence[Any], named: Mapping[str, Any], rows: _Rows
) -> tuple[Tensor, ...]:
    """What a mean over tokens may count: entries that are not padding, in masks and targets."""
    counts = []
    for value in leaves((inputs, named)):
        # A float tensor may be a mask, except the first two, which are output and target.
        is_float = rows.has_rows(value) and not _is_whole(value)
        is_input = is_float and any(value is each for each in inputs[:2])
        if is_input or not rows.has_rows(value):
            continue
        per_sample = value if len(value) == rows.samples != rows.rows else rows.ordered(value)
        flat = per_sample.detach().reshape(rows.samples, -1)
        counts.append((flat != 0).sum(1).float())
        if not is_float and value.dtype is not torch.bool:
            counts.append((flat >= 0).sum(1).float())  # -100 and -1 mean that nothing is predicted
    return tuple(counts)


def _is_whole(value: Tensor) -> bool:
    return not (value.is_floating_point() or value.is_complex())


# -- the loss of the batch ------------------------------------------------------------------------


def _scalar(batch_loss: Any) -> Any:
    """The loss of the batch as one number; the mean of one that was not reduced."""
    return batch_loss if batch_loss is None else _one_loss(batch_loss)


def _epsilon(value: Any) -> float:
    is_float = isinstance(value, Tensor) and value.is_floating_point()
    return float(torch.finfo(value.dtype).eps) if is_float else 0.0

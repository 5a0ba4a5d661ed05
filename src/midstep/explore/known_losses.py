"""Losses of torch that are computed for all samples at once, with `reduction="none"`.

The result is that of the loss on a batch of one, sample by sample: class weights cancel under
`mean`. The inputs are read in pieces, so the memory used is small however large the output is.

Shapes: R rows of the inputs, G rows of each sample, B samples.
"""

# ruff: noqa: N806 - names end in their shape
from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import Tensor, nn

Kind = Literal["classes", "binary", "probabilities", "values"]
"""What the output is: logits or log-probabilities of classes, logits or probabilities of two
classes, values."""
PIECE_ELEMENTS = 4 << 20
"""Elements of the output that are read together: 16 MiB, and two or three times that in between."""


@dataclass(frozen=True, kw_only=True)
class _Form:
    """One loss of torch: its function, and the settings that it shares with its module."""

    function: Callable[..., Tensor]
    kind: Kind
    settings: tuple[str, ...] = ()
    has_classes: bool = False
    """Whether the target names classes: then some may be ignored, and each may have a weight."""


_FORMS: Mapping[type[nn.Module], _Form] = {
    nn.CrossEntropyLoss: _Form(
        function=F.cross_entropy,
        kind="classes",
        settings=("weight", "ignore_index", "label_smoothing"),
        has_classes=True,
    ),
    nn.NLLLoss: _Form(
        function=F.nll_loss, kind="classes", settings=("weight", "ignore_index"), has_classes=True
    ),
    nn.MSELoss: _Form(function=F.mse_loss, kind="values"),
    nn.L1Loss: _Form(function=F.l1_loss, kind="values"),
    nn.SmoothL1Loss: _Form(function=F.smooth_l1_loss, kind="values", settings=("beta",)),
    nn.HuberLoss: _Form(function=F.huber_loss, kind="values", settings=("delta",)),
    nn.BCELoss: _Form(function=F.binary_cross_entropy, kind="probabilities", settings=("weight",)),
    nn.BCEWithLogitsLoss: _Form(
        function=F.binary_cross_entropy_with_logits,
        kind="binary",
        settings=("weight", "pos_weight"),
    ),
}
_BY_FUNCTION = {form.function: form for form in _FORMS.values()}
_IGNORED = -100
"""Default of `ignore_index`."""


@dataclass(frozen=True, kw_only=True)
class KnownLoss:
    """A loss of torch with its settings and its two inputs."""

    form: _Form
    output: Tensor
    target: Tensor
    reduction: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def kind(self) -> Kind:
        """What the output is."""
        return self.form.kind

    def sums_and_counts(
        self, samples: int, rows: Callable[[Tensor], Tensor]
    ) -> tuple[Tensor, Tensor]:
        """The sum over each sample's elements, and what a mean divides it by; both [B].

        Args:
            samples: how many there are.
            rows: brings the rows of a tensor into the order of the samples.
        """
        pieces = [self._piece(first, stop) for first, stop in self._pieces()]
        sums_R = rows(torch.cat([sums for sums, _counts in pieces]))
        counts_R = rows(torch.cat([counts for _sums, counts in pieces]))
        return sums_R.reshape(samples, -1).sum(1), counts_R.reshape(samples, -1).sum(1)

    def _pieces(self) -> list[tuple[int, int]]:
        count = len(self.output)
        step = max(1, PIECE_ELEMENTS // max(1, self.output[:1].numel()))
        return [(first, min(first + step, count)) for first in range(0, count, step)]

    def _piece(self, first: int, stop: int) -> tuple[Tensor, Tensor]:
        """Sums and counts of some rows, [stop - first]."""
        output, target = wide(self.output[first:stop]), wide(self.target[first:stop])
        settings = {name: wide(value) for name, value in self.settings.items()}
        values = self.form.function(output, target, reduction="none", **settings)
        sums = values.flatten(1).sum(1) if values.dim() > 1 else values
        return sums, self._counts(values, target)

    def _counts(self, values: Tensor, target: Tensor) -> Tensor:
        per_row = max(1, values[:1].numel())
        if not self.form.has_classes or target.is_floating_point():
            return values.new_full((len(values),), float(per_row))
        counted = target.ne(self.settings.get("ignore_index", _IGNORED))
        weight = self.settings.get("weight")
        counts: Tensor = counted.to(values.dtype)
        if weight is not None:
            # The number of the ignored class may be outside of the valid indices.
            counts = wide(weight)[torch.where(counted, target, 0)] * counts
        return counts.flatten(1).sum(1) if counts.dim() > 1 else counts


def wide(value: Any) -> Any:
    """A tensor of a small float type as float32, any other value as it is."""
    is_small = isinstance(value, Tensor) and value.is_floating_point() and value.itemsize < 4
    return value.float() if is_small else value


def known_loss(loss_fn: Any, inputs: Sequence[Any], named: Mapping[str, Any]) -> KnownLoss | None:
    """The loss with its inputs, if it is one of torch that this module computes; else None.

    >>> loss = known_loss(nn.MSELoss(), (torch.zeros(2), torch.ones(2)), {})
    >>> loss.sums_and_counts(2, lambda rows: rows)
    (tensor([1., 1.]), tensor([1., 1.]))
    """
    form, given = _form_of(loss_fn, inputs, named)
    if form is None:
        return None
    output, target = given.pop("input", None), given.pop("target", None)
    if given.pop("size_average", None) is not None or given.pop("reduce", None) is not None:
        return None
    reduction = given.pop("reduction", "mean")
    if reduction not in ("mean", "sum", "none") or not given.keys() <= set(form.settings):
        return None
    if not (isinstance(output, Tensor) and isinstance(target, Tensor) and output.dim()):
        return None
    settings = {name: value for name, value in given.items() if value is not None}
    loss = KnownLoss(
        form=form, output=output, target=target, reduction=reduction, settings=settings
    )
    return loss if _fits(loss) else None


def _form_of(
    loss_fn: Any, inputs: Sequence[Any], named: Mapping[str, Any]
) -> tuple[_Form | None, dict[str, Any]]:
    """The form of a loss, and every argument by name."""
    named = dict(named)
    while isinstance(loss_fn, functools.partial):
        inputs, named = (*loss_fn.args, *inputs), {**loss_fn.keywords, **named}
        loss_fn = loss_fn.func
    # Exactly these types: a subclass may compute anything.
    form = _FORMS.get(type(loss_fn))
    if form is not None:
        own = {name: getattr(loss_fn, name) for name in (*form.settings, "reduction")}
        return form, {**own, **_bind(_two_inputs, inputs, named)}
    is_function = inspect.isroutine(loss_fn)
    form = _BY_FUNCTION.get(loss_fn) if is_function else None
    return form, {} if form is None else _bind(loss_fn, inputs, named)


def _two_inputs(input: Tensor, target: Tensor) -> None:  # noqa: A002 - the name in torch
    """The arguments of a loss module."""


def _bind(
    function: Callable[..., Any], inputs: Sequence[Any], named: Mapping[str, Any]
) -> dict[str, Any]:
    try:
        return dict(inspect.signature(function).bind(*inputs, **named).arguments)
    except TypeError:
        return {}


def _fits(loss: KnownLoss) -> bool:
    """Whether the shapes are those for which rows are independent of each other."""
    output, target = loss.output, loss.target
    if len(output) != (len(target) if target.dim() else -1):
        return False
    if not loss.form.has_classes:
        # A weight with a row for each sample would have to be cut like the inputs.
        weights = (each for each in loss.settings.values() if isinstance(each, Tensor))
        is_shared = all(each.numel() == 1 or each.dim() < output.dim() for each in weights)
        return output.shape == target.shape and is_shared
    if target.is_floating_point():
        return output.shape == target.shape and output.dim() > 1
    return output.dim() == target.dim() + 1 and output.shape[2:] == target.shape[1:]

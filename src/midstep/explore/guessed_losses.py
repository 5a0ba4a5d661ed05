"""Losses that may have led from a model's output to a loss whose computation was not seen.

They are the declared function of the user, and the usual losses of torch.

Such a guess is shown only if the losses of the samples combine to the loss that was seen: that of
a model which returns it with its logits, or the one that the loop logged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import Tensor, nn

from midstep.explore.known_losses import PIECE_ELEMENTS

LABEL_KEYS = ("labels", "label", "targets", "target", "y")
INPUT_KEYS = ("x", "input", "inputs", "image", "images", "features", "pixel_values")
MOST_TARGETS = 4
"""Targets that a function of the user is tried with."""
_IGNORED = -100
_VALUE_LOSSES = (
    F.mse_loss,
    F.binary_cross_entropy_with_logits,
    F.l1_loss,
    F.smooth_l1_loss,
    F.huber_loss,
)


@dataclass(frozen=True, kw_only=True)
class LossInputs:
    """A loss and what it is called with."""

    loss_fn: Any
    inputs: tuple[Any, ...]
    named: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class ModelCall:
    """What is kept of one forward pass in training."""

    scores: Tensor | None
    """The output itself, its entry `logits`, or its first tensor with a row for each sample."""
    own_loss: Tensor | None
    """The loss that the model returned: an entry `loss`, or the only scalar of a tuple."""
    targets: tuple[Tensor, ...] = ()
    """Arguments of the model that may be a target, the likeliest first."""
    inputs: tuple[Tensor, ...] = ()
    """Its input, if that has the size of the output, as in an autoencoder."""

    @classmethod
    def from_call(cls, args: Sequence[Any], kwargs: Mapping[str, Any], output: Any) -> ModelCall:
        """Keep what a guess needs of these arguments and this output."""
        scores, own_loss = _scores(output), _own_loss(output)
        given = _tensors(*args[:1], _entry(kwargs, INPUT_KEYS))
        size = 0 if scores is None else scores.numel()
        return cls(
            scores=None if scores is None else scores.detach(),
            own_loss=None if own_loss is None else own_loss.detach(),
            targets=_tensors(_entry(kwargs, LABEL_KEYS), *args[1:2]),
            inputs=tuple(each for each in given if each.numel() == size),
        )

    def possible_targets(self, batch: Any) -> list[Tensor]:
        """The targets that the model got, those of the batch, and the input."""
        of_pair = batch[1:2] if isinstance(batch, list | tuple) else ()
        of_batch = _tensors(_entry(batch, LABEL_KEYS), *of_pair)
        known = (*self.targets, *of_batch, *self.inputs)
        return list({id(each): each for each in known}.values())


def _tensors(*values: Any) -> tuple[Tensor, ...]:
    return tuple(each.detach() for each in values if isinstance(each, Tensor))


def _own_loss(output: Any) -> Tensor | None:
    named = _entry(output, ("loss",))
    if named is not None:
        return named if isinstance(named, Tensor) and named.numel() == 1 else None
    parts = output if isinstance(output, list | tuple) else ()
    scalars = [each for each in parts if _is_float(each) and each.dim() == 0]
    return scalars[0] if len(scalars) == 1 else None


def _scores(output: Any) -> Tensor | None:
    named = _entry(output, ("logits", "scores", "output", "outputs"))
    candidates = [output, named]
    candidates += output if isinstance(output, list | tuple) else ()
    candidates += output.values() if isinstance(output, Mapping) else ()
    return next((each for each in candidates if _is_float(each) and each.dim()), None)


def _entry(value: Any, names: Sequence[str]) -> Any:
    """The first of these entries of a mapping, or attributes of an object; None without any."""
    if isinstance(value, Mapping):
        return next((value[name] for name in names if value.get(name) is not None), None)
    is_plain = isinstance(value, Tensor | list | tuple) and not hasattr(value, "_fields")
    if value is None or is_plain:
        return None
    held = (getattr(value, name, None) for name in names)
    return next((each for each in held if each is not None), None)


def _is_float(value: Any) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point()


def guesses(call: ModelCall, batch: Any, loss_fn: Any = None) -> list[LossInputs]:
    """Losses of torch that fit the output and a target, the likeliest first.

    Args:
        call: the forward pass.
        batch: of this forward pass.
        loss_fn: the declared loss; if it is one of torch, no other is tried. A function of the user
            is tried first.
    """
    scores = call.scores
    if scores is None:
        return []
    near = [_near(target, scores) for target in call.possible_targets(batch)]
    fitting = [guess for target in near for guess in _of_target(scores, target)]
    declared = [each for each in fitting if each.loss_fn is loss_fn]
    if not declared and is_own_function(loss_fn):
        declared = [_of_function(loss_fn, scores, target) for target in near[:MOST_TARGETS]]
        return [*declared, *fitting]
    return declared or fitting


def is_own_function(loss_fn: Any) -> bool:
    """Whether a declared loss is a function of the user, whose calls are not seen."""
    is_torch = (getattr(loss_fn, "__module__", None) or "").startswith("torch.")
    return callable(loss_fn) and not isinstance(loss_fn, nn.Module) and not is_torch


def _of_function(loss_fn: Any, scores: Tensor, target: Tensor) -> LossInputs:
    if scores.is_cuda and scores.dim() > 1 and not target.is_floating_point():
        # An index beyond the classes would end the process on a GPU. With another one the function
        # does not give the loss that was logged, and is not believed.
        target = torch.where((target >= 0) & (target < scores.shape[1]), target, 0)
    return LossInputs(loss_fn=loss_fn, inputs=(scores, target), named={})


def _near(target: Tensor, scores: Tensor) -> Tensor:
    """The target on the device of the output; from pinned memory without waiting."""
    return target.detach().to(scores.device, non_blocking=True)


def _of_target(scores: Tensor, target: Tensor) -> Iterator[LossInputs]:
    scores = scores.detach()
    names_classes = not target.is_floating_point() and target.dtype is not torch.bool
    if names_classes and target.dim() == scores.dim() - 1:
        yield from _of_classes(scores, target)
    else:
        yield from _of_values(scores, target)


def _of_classes(scores: Tensor, target: Tensor) -> Iterator[LossInputs]:
    if scores.shape[1:] == (1,) and target.shape == scores.shape[:1]:
        yield from _of_values(scores, target)
    elif scores.dim() == 3 and target.shape == scores.shape[:2]:
        # A causal model is given its tokens as labels. The target is moved, not the scores: these
        # may be large, and are not copied.
        nothing = torch.full_like(target[:, :1], _IGNORED)
        for named in (torch.cat([target[:, 1:], nothing], dim=1), target):
            yield _classes(scores.flatten(0, 1), named.flatten())
    elif scores.shape[:1] == target.shape[:1] and scores.shape[2:] == target.shape[1:]:
        yield _classes(scores, target)


def _classes(scores: Tensor, target: Tensor) -> LossInputs:
    # An index beyond the classes would end the process on a GPU, so it is ignored here.
    is_class = (target >= 0) & (target < scores.shape[1])
    safe = torch.where(is_class, target, _IGNORED).long()
    return LossInputs(loss_fn=F.cross_entropy, inputs=(scores, safe), named={})


def _of_values(scores: Tensor, target: Tensor) -> Iterator[LossInputs]:
    if scores.shape != target.shape:
        if scores.numel() != target.numel() or scores.shape[:1] != target.shape[:1]:
            return
        target = target.reshape(scores.shape)
    target = target.to(scores.dtype)
    for function in _VALUE_LOSSES:
        yield LossInputs(loss_fn=function, inputs=(scores, target), named={})
    if scores.numel() <= PIECE_ELEMENTS:
        # Outside of 0 to 1 it would end the process on a GPU.
        inside = scores.clamp(0, 1), target.clamp(0, 1)
        yield LossInputs(loss_fn=F.binary_cross_entropy, inputs=inside, named={})

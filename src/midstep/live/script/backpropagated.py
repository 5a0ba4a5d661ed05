"""What was backpropagated, and on which batch, since the last optimizer step."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from midstep.data.batch_structure import tensors_of
from midstep.live.loop.window import Window

if TYPE_CHECKING:
    import torch

MOST_CALLS = 512
"""Forward passes that are kept before a backward pass; an episode may have more."""
MOST_BYTES = 16 * 2**20
MOST_WEIGHTED = 65_536
"""A loss with more elements and a gradient of its own is not added up."""


class ScaledLosses:
    """Losses before `GradScaler.scale`, found by what it returned."""

    def __init__(self) -> None:
        self._newest: list[tuple[weakref.ref[Any], Any]] = []

    def note(self, scaled: Any, loss: Any) -> None:
        """`scaled` is what the scaler made of `loss`."""
        if hasattr(scaled, "backward") and scaled is not loss:
            self._newest = [*self._newest[-7:], (weakref.ref(scaled), loss.detach())]

    def unscaled(self, tensor: Any) -> Any:
        """The loss without the factor of the scaler."""
        for scaled, loss in self._newest:
            if scaled() is tensor:
                return loss
        return tensor


def loss_value(tensors: Any, gradients: Any, scaled: ScaledLosses) -> Any:
    """What one backward pass adds to the gradients' loss: a number, or a tensor on a device.

    None if it is not a loss. A tensor with a gradient of its own counts as their product.
    """
    roots = list(tensors) if isinstance(tensors, Sequence) else [tensors]
    given = list(gradients) if isinstance(gradients, Sequence) else [gradients]
    if len(given) != len(roots):
        given = [None] * len(roots)
    values = [_one_value(scaled.unscaled(a), b) for a, b in zip(roots, given, strict=True)]
    known = [value for value in values if value is not None]
    return sum(known[1:], start=known[0]) if known else None


def _one_value(root: Any, gradient: Any) -> Any:
    if not hasattr(root, "detach") or root.numel() > MOST_WEIGHTED:
        return None
    value: torch.Tensor = root.detach()
    if gradient is not None:
        value = value * gradient.detach()
    if value.numel() != 1:
        if gradient is None:
            return None
        value = value.sum()
    value = value.reshape(())
    return value.item() if value.device.type == "cpu" else value.clone()


class Calls:
    """The inputs of the newest forward passes of one module, all of the same shapes."""

    def __init__(self) -> None:
        self.inputs: list[Any] = []
        self._shapes: Any = None
        self._bytes = 0

    def add(self, given: Any) -> None:
        """Note what a pass received; other shapes than before begin anew."""
        shapes = [tensor.shape for tensor in tensors_of(given)]
        if shapes != self._shapes:
            self.inputs, self._shapes, self._bytes = [], shapes, 0
        size = sum(tensor.nbytes for tensor in tensors_of(given))
        if not self.inputs or (len(self.inputs) < MOST_CALLS and self._bytes + size <= MOST_BYTES):
            self.inputs.append(given)
            self._bytes += size


class Backpropagated:
    """Losses and batches between two optimizer steps.

    The batch of a backward pass is the one that a DataLoader gave before the forward pass, or else
    what the forward pass received.
    """

    def __init__(self) -> None:
        self.scaled = ScaledLosses()
        self._fetched: tuple[Any, Any] | None = None  # by which iterator, and the batch
        self._trained_on: Any = None  # the fetched batch that a forward pass belongs to
        self._calls: dict[int, Calls] = {}
        self.clear()

    def clear(self) -> None:
        """Begin anew, after an optimizer step or when the gradients are dropped."""
        self.losses: list[Any] = []
        """One value for each backward pass."""
        self.batches = Window()
        """The micro-batches of these backward passes."""
        self.has_loader_batch = False

    @property
    def has_begun(self) -> bool:
        """Whether anything of a next step was seen."""
        return bool(self.losses or self._calls or self._fetched or self._trained_on is not None)

    def batch_fetched(self, iterator: Any, batch: Any) -> None:
        """A DataLoader gave a batch. Of several loaders, the first one's batch counts."""
        if self._fetched is None or self._fetched[0]() is iterator:
            self._fetched = (weakref.ref(iterator), batch)

    def forward_called(self, module: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """A module of the script was called with gradients."""
        if self._fetched is not None:
            self._trained_on, self._fetched = self._fetched[1], None
        given = _inputs(args, kwargs)
        if given is not None:
            # Moved to the end: the order of the modules is that of their newest calls.
            calls = self._calls.pop(id(module), None) or Calls()
            calls.add(given)
            self._calls[id(module)] = calls

    def add(self, value: Any, *, is_loader_used: bool) -> None:
        """A backward pass begins.

        Args:
            value: what it adds to the loss; None if that is unknown.
            is_loader_used: whether a batch of this step came from a DataLoader before.
        """
        if value is not None:
            self.losses.append(value)
        if self._trained_on is None and self._fetched is not None:
            self._trained_on, self._fetched = self._fetched[1], None
        if self._trained_on is not None:
            self.batches.add(self._trained_on, None)
            self.has_loader_batch = True
        elif self._calls and not is_loader_used and not self.has_loader_batch:
            for given in next(iter(self._calls.values())).inputs:
                self.batches.add(given, None)
        self.drop_calls()

    def position(self) -> tuple[int, Any]:
        """Number of the next backward pass, and the fetched batch of its forward pass."""
        return self.batches.count + 1, self._trained_on

    def drop_calls(self) -> None:
        """Forget the forward passes of a backward pass that is not counted."""
        self._trained_on = None
        self._calls.clear()

    def total(self) -> Any:
        """The sum of the backward passes; None without any."""
        return sum(self.losses[1:], start=self.losses[0]) if self.losses else None


def _inputs(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """What is shown of the arguments of a forward pass: its tensors; None without any."""
    named = {name: value for name, value in kwargs.items() if _is_tensor(value)}
    given = [value for value in args if _is_tensor(value)]
    if not given:
        structures = [value for value in args if any(True for _ in tensors_of(value))]
        return structures[0] if structures else (named or None)
    if named:
        return {**{f"input {index}": value for index, value in enumerate(given)}, **named}
    return given[0] if len(given) == 1 else tuple(given)


def _is_tensor(value: Any) -> bool:
    return hasattr(value, "detach") and hasattr(value, "nbytes")

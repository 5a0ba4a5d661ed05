"""`LossesSinceStep`: losses of backward passes since the optimizer step, and their batches."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from midstep.data.batch_structure import tensors_of
from midstep.live.loop.window import Window
from midstep.live.script.fetched_batches import FetchedBatches

if TYPE_CHECKING:
    import torch

MOST_CALLS = 512
"""Forward passes that are kept before a backward pass; an episode may have more."""
MOST_BYTES = 16 * 2**20
MOST_WEIGHTED = 65_536
"""A loss with more elements and a gradient of its own is not added up."""


class ScaledLosses:
    """Looks up the loss that a tensor of `GradScaler.scale` was computed from."""

    def __init__(self) -> None:
        self._newest: list[tuple[weakref.ref[Any], Any]] = []

    def note(self, scaled: Any, loss: Any) -> None:
        """`scaled` is what the scaler returned for `loss`."""
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


class RecentInputs:
    """The inputs of the newest forward passes of one module, all of the same shapes.

    Args:
        module: the module.
    """

    def __init__(self, module: Any) -> None:
        self.module = weakref.ref(module)
        self.inputs: list[Any] = []
        self._shapes: Any = None
        self._bytes = 0

    def add(self, given: Any) -> None:
        """Note what a pass received; inputs of other shapes replace those before."""
        shapes = [tensor.shape for tensor in tensors_of(given)]
        if shapes != self._shapes:
            self.inputs, self._shapes, self._bytes = [], shapes, 0
        size = sum(tensor.nbytes for tensor in tensors_of(given))
        if not self.inputs or (len(self.inputs) < MOST_CALLS and self._bytes + size <= MOST_BYTES):
            self.inputs.append(given)
            self._bytes += size


class LossesSinceStep:
    """Losses and batches between two optimizer steps.

    The batch of a backward pass is the one that a DataLoader gave before the forward pass, or else
    what the forward pass received.
    """

    def __init__(self) -> None:
        self.scaled = ScaledLosses()
        self._fetched = FetchedBatches()
        self._trained_on: Any = None  # the fetched batch that a forward pass belongs to
        self._calls: dict[int, RecentInputs] = {}
        self.clear()

    def clear(self) -> None:
        """Forget losses and batches, after an optimizer step."""
        self.losses: list[Any] = []
        """One value for each backward pass."""
        self._batches = Window()  # of DataLoaders, one for each backward pass
        self._inputs: dict[int, tuple[Any, Window]] = {}  # by module, if there are no such batches

    def drop(self) -> None:
        """Forget the backward passes: their gradients were dropped.

        A forward pass that follows without a new batch, as of a method that first perturbs the
        weights, is made on the batch of the one before.
        """
        if self._trained_on is None and self._batches.batches:
            self._trained_on = self._batches.batches[-1]
        self.clear()

    @property
    def has_begun(self) -> bool:
        """Whether anything of a next step was seen."""
        return bool(self.losses or self._calls or self._fetched.any or self._trained_on is not None)

    @property
    def has_gradients(self) -> bool:
        """Whether a backward pass was made."""
        return bool(self.losses or self._batches.count or self._inputs)

    @property
    def has_loader_batch(self) -> bool:
        """Whether one of the batches came from a DataLoader."""
        return bool(self._batches.count)

    @property
    def batch_order(self) -> int | None:
        """Id of the sampler of the DataLoader that gives the batches."""
        return self._fetched.order

    def batch_fetched(self, iterator: Any, batch: Any) -> None:
        """A DataLoader gave a batch."""
        self._fetched.add(iterator, batch)

    def pass_ended(self, iterator: Any) -> None:
        """A DataLoader has no further batch."""
        self._fetched.end_pass(iterator)

    def forward_called(self, module: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """A module of the script was called with gradients."""
        given = _inputs(args, kwargs)
        self._take_fetched(given)
        if given is not None:
            # Moved to the end: the order of the modules is that of their newest calls.
            calls = self._calls.pop(id(module), None) or RecentInputs(module)
            calls.add(given)
            self._calls[id(module)] = calls

    def _take_fetched(self, given: Any) -> None:
        if self._fetched.any and (batch := self._fetched.take(given)) is not None:
            self._trained_on = batch

    def add(self, value: Any, *, is_loader_used: bool) -> None:
        """A backward pass begins.

        Args:
            value: what it adds to the loss; None if that is unknown.
            is_loader_used: whether a batch of this step came from a DataLoader before.
        """
        if value is not None:
            self.losses.append(value)
        if self._trained_on is None and not self._calls:
            self._take_fetched(None)  # no module of the script was seen
        if self._trained_on is not None:
            self._batches.add(self._trained_on, None)
        elif not is_loader_used and not self.has_loader_batch:
            for key, calls in self._calls.items():
                _, window = self._inputs.setdefault(key, (calls.module, Window()))
                for given in calls.inputs:
                    window.add(given, None)
        self.drop_calls()

    def batches_of(self, optimizer: Any) -> Window:
        """The micro-batches of these backward passes.

        Without a DataLoader they are what a module received that this optimizer trains: a script
        may also call others, such as a policy that acts before a critic is trained.

        Args:
            optimizer: the one that steps.
        """
        if self._batches.count or not self._inputs:
            return self._batches
        windows = list(self._inputs.values())
        if len(windows) > 1:
            trained = {id(each) for group in optimizer.param_groups for each in group["params"]}
            for reference, window in windows:
                module = reference()
                if module is not None and any(id(p) in trained for p in module.parameters()):
                    return window
        return windows[0][1]

    def position(self) -> tuple[int, Any]:
        """Number of the next backward pass, and the fetched batch of its forward pass."""
        counts = [window.count for _, window in self._inputs.values()]
        return max([self._batches.count, *counts]) + 1, self._trained_on

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
    return hasattr(value, "dim") and any(True for _ in tensors_of(value))

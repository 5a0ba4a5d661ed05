"""`OtherOptimizers`: counts the steps of all optimizers but the first, and reads their rates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from midstep.session.metrics.runtime_metrics import used_rate

if TYPE_CHECKING:
    from torch.optim import Optimizer

    from midstep.session.state.training_parts import TrainingParts


class OtherOptimizers:
    """The optimizers of a loop except the first, whose steps are the clock.

    Args:
        first: the name of the first.
        optimizers: the others by name.
    """

    def __init__(self, first: str, optimizers: Mapping[str, Optimizer]) -> None:
        self.first = first
        self._optimizers = dict(optimizers)
        self._counts = dict.fromkeys(self._optimizers, 0)
        self._rates: dict[str, Any] = {}

    @classmethod
    def from_parts(cls, parts: TrainingParts) -> OtherOptimizers:
        """Count the optimizers of a training, except its first."""
        names: Sequence[str] = parts.optimizer_names
        return cls(names[0], dict(zip(names[1:], parts.optimizers[1:], strict=True)))

    def __bool__(self) -> bool:
        return bool(self._optimizers)

    @property
    def largest_step_count(self) -> int:
        """Steps of the optimizer that stepped most often since the last `take`."""
        return max(self._counts.values(), default=0) if self._optimizers else 0

    @contextmanager
    def hooked(self) -> Iterator[None]:
        """Count their steps inside the block."""
        handles = [
            optimizer.register_step_pre_hook(self._counting(name))
            for name, optimizer in self._optimizers.items()
        ]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _counting(self, name: str) -> Any:
        def count(optimizer: Optimizer, *_: object) -> None:
            self._counts[name] += 1
            self._rates[name] = used_rate(optimizer)

        return count

    def take(self, first: Any) -> dict[str, Any]:
        """The rates that were used since the last call, as `lr.NAME`; begins to count again.

        Args:
            first: the rate of the first optimizer; it is added if another one has stepped.
        """
        rates, self._rates = self._rates, {}
        self._counts = dict.fromkeys(self._counts, 0)
        if rates:
            rates[self.first] = first
        return {f"lr.{name}": rate for name, rate in rates.items() if rate is not None}


def has_closure(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether a step was called with a closure, which computes the gradients inside of the step.

    Args:
        args: as a hook of the optimizer gets them: the optimizer comes first.
        kwargs: of the call.
    """
    return callable(kwargs.get("closure")) or any(map(callable, args[1:]))

"""The seams where rooms of one row meet without importing each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from midstep.core.moments import Moment

__all__ = ["Selection", "Sink", "TrainingView"]


class Sink(Protocol):
    """Where the controller sends what happened. Both calls return quickly."""

    def log(self, step: int, values: Mapping[str, Any]) -> None:
        """Scalars of one step. A value is a number or a zero-dimensional tensor."""
        ...

    def event(self, moment: Moment, **fields: Any) -> None:
        """A record worth keeping; when this returns, it is written."""
        ...


class TrainingView(Protocol):
    """What a reader of a parked session may look at."""

    @property
    def model(self) -> Any:
        """The module in training."""
        ...

    @property
    def loss_fn(self) -> Callable[..., Any] | None:
        """The loss, where it was declared."""
        ...

    @property
    def dataset(self) -> Any:
        """The training dataset."""
        ...

    def rng_guard(self) -> AbstractContextManager[None]:
        """Leaves every global random generator as it was."""
        ...


class Selection(Protocol):
    """A choice of samples, in words and as ids."""

    def resolve(self, view: TrainingView) -> Sequence[int]:
        """The chosen sample ids."""
        ...

"""What a policy does to a loader, as the ordered loader sees it."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, get_args

from midstep.core.errors import ConfigError
from midstep.data.in_place import InPlace, SamplerStandIn
from midstep.data.trained import Trained

if TYPE_CHECKING:
    from midstep.data.randomness import RandomState

__all__ = [
    "Course",
    "DrawnIds",
    "OrderConfig",
    "OrderPolicy",
    "Setting",
    "Source",
    "Taken",
    "warn",
]

OrderPolicy = Literal["user", "epoch_reseed", "fixed_order"]


@dataclass(frozen=True, kw_only=True)
class OrderConfig:
    """How samples are ordered, and what happens when that cannot be exact.

    >>> OrderConfig(policy="epoch_reseed", seed=7).order_epoch(3)
    3
    """

    policy: OrderPolicy = "user"
    """`user`: as it is, recorded; `epoch_reseed`: seeded for each epoch; `fixed_order`: once."""
    seed: int | None = None
    """The run's seed; the two seeded policies need it, `user` ignores it."""
    enforce_sampler_state: bool = True
    """Refuse what cannot be resumed exactly; if False, report it once and go on."""

    def __post_init__(self) -> None:
        if self.policy not in get_args(OrderPolicy):
            known = ", ".join(map(repr, get_args(OrderPolicy)))
            raise ConfigError(f"data order policy {self.policy!r} is unknown; use one of {known}")
        if self.seeded and self.seed is None:
            raise ConfigError(f"policy {self.policy!r} needs a seed; pass seed=… or use 'user'")

    @property
    def seeded(self) -> bool:
        """Whether order and augmentation come from the run's seed."""
        return self.policy != "user"

    @property
    def sample_seed(self) -> int | None:
        """The seed of what happens inside a sample; None where that is the user's own."""
        return self.seed if self.seeded else None

    def order_epoch(self, epoch: int) -> int:
        """The epoch whose order is used in `epoch`."""
        return 0 if self.policy == "fixed_order" else epoch


class Setting:
    """What every part of an ordered loader shares: the loader, the place, and the complaints."""

    def __init__(
        self, place: InPlace, config: OrderConfig, report: Callable[[str], object]
    ) -> None:
        self.place, self.config = place, config
        self.trained = Trained()
        self.problems: list[str] = []
        self._report = report

    @property
    def loader(self) -> Any:
        """The user's loader."""
        return self.place.loader

    def inexact(self, reason: str) -> None:
        """Something cannot be made exact: refuse it, or report it once.

        Raises:
            ConfigError: if the state of samplers is enforced.
        """
        if self.config.enforce_sampler_state:
            raise ConfigError(
                f"under policy {self.config.policy!r} a resume would not be exact: {reason}. "
                "Change that, or set enforce_sampler_state=False to go on without the promise"
            )
        if reason not in self.problems:
            self.problems.append(reason)
            self._report(f"a resume will not be exact: {reason}")


def warn(text: str) -> None:
    """The report of those who give no other."""
    warnings.warn(text, UserWarning, stacklevel=4)


class Taken(NamedTuple):
    """A batch as the loop gets it, its ids, and what is to be done once it is trained on."""

    batch: Any
    ids: Sequence[Any]
    settle: Callable[[], object]


class Source:
    """The batches of one pass, unpacked; like the loader's own iterator it survives an error.

    Args:
        inner: the loader's iterator.
        unpack: what to make of a batch; None drops it.
        first: a guard around the first batch.
    """

    def __init__(
        self,
        inner: Iterator[Any],
        unpack: Callable[[Any], Taken | None],
        first: AbstractContextManager[Any] | None = None,
    ) -> None:
        self.inner, self._unpack, self._first = inner, unpack, first

    def __iter__(self) -> Source:
        return self

    def __next__(self) -> Taken:
        while True:
            batch = next(self.inner) if self._first is None else self._guarded(self._first)
            taken = self._unpack(batch)
            if taken is not None:
                return taken

    def _guarded(self, guard: AbstractContextManager[Any]) -> Any:
        self._first = None
        with guard:
            return next(self.inner)


class Course(Protocol):
    """One policy on one kind of dataset."""

    def stand_ins(self) -> Mapping[str, Any]:
        """The loader's attributes to replace."""
        ...

    def begin_epoch(self) -> None:
        """The place is now the start of another epoch."""
        ...

    def use_sampler(self, sampler: Any) -> None:
        """Draw from another sampler from the next pass on."""
        ...

    def leave(self) -> None:
        """The loader is about to be given back."""
        ...

    def open(self, *, again: bool) -> Source:
        """A pass from the present place.

        Args:
            again: whether this pass had begun before, here or in a process that ended.
        """
        ...

    def state(self) -> dict[str, Any]:
        """What has to be saved beyond epoch and cursor."""
        ...

    def load(self, state: Mapping[str, Any]) -> None:
        """Put back what `state` gave."""
        ...

    def random_state(self) -> RandomState | None:
        """Random states that have to be saved: too large for `state`."""
        ...

    def load_random_state(self, state: RandomState | None) -> None:
        """Put back what `random_state` gave."""
        ...


class DrawnIds:
    """The ids of the batches of one pass, in the order in which they are handed out."""

    def __init__(self, stand_in: SamplerStandIn) -> None:
        self._stand_in, self._before = stand_in, stand_in.drawn
        self._queue: deque[Sequence[Any]] | None = None

    def bind(self) -> bool:
        """The pass has begun: bind to its draws. False if the loader has not asked yet."""
        # A loader whose `__iter__` is a generator asks its sampler only with the first batch.
        if self._queue is None and self._stand_in.drawn is not self._before:
            self._queue = self._stand_in.drawn
        return self._queue is not None

    def next(self) -> Sequence[Any]:
        """The ids of the batch just received."""
        if self._queue is None:
            self.bind()
        return self._queue.popleft() if self._queue else ()

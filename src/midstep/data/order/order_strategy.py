"""What an order policy does to a loader: its settings, and the base of its implementations.

`UserOrder`, `SeededOrder` and `StreamOrder` are the `OrderStrategy` classes; `OrderedLoader` calls
them.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

from midstep.core.errors import ConfigError
from midstep.core.random_streams import stream_key
from midstep.data.order.epoch_cursor import EpochCursor
from midstep.data.order.loader_patch import LoaderPatch, SamplerProxy
from midstep.data.random_state import RandomState, find_generators, temporary_seed

OrderPolicy = Literal["user", "epoch_reseed", "fixed_order"]

WORKERS_DRAW = (
    "its workers draw random numbers, and their generators end with them; use epoch_reseed or "
    "fixed_order, num_workers=0, or draw nothing in the dataset"
)
"""Why policy `user` cannot resume a loader whose workers draw: their state cannot be saved."""


@dataclass(frozen=True, kw_only=True)
class OrderConfig:
    """How samples are ordered, and what happens if that order cannot be resumed exactly.

    >>> OrderConfig(policy="epoch_reseed", seed=7).order_epoch(3)
    3
    """

    policy: OrderPolicy = "user"
    """`user`: the loader's own order, recorded; `epoch_reseed`: a new seeded order for each epoch;
    `fixed_order`: one seeded order for all epochs."""
    seed: int | None = None
    """The run's seed. The two seeded policies need it, `user` ignores it."""
    enforce_sampler_state: bool = True
    """Refuse a loader that cannot be resumed exactly; if False, report the reason once instead."""

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
        """The seed of random numbers inside a sample; None under `user`, which seeds nothing."""
        return self.seed if self.seeded else None

    def order_epoch(self, epoch: int) -> int:
        """The epoch whose order is used in `epoch`."""
        return 0 if self.policy == "fixed_order" else epoch


class LoaderContext:
    """What the parts of an ordered loader share: the patched loader, its cursor, its problems."""

    def __init__(
        self, patch: LoaderPatch, config: OrderConfig, report: Callable[[str], object]
    ) -> None:
        self.patch, self.config = patch, config
        self.cursor = EpochCursor()
        self.problems: list[str] = []
        self._report = report

    @property
    def loader(self) -> Any:
        """The user's loader."""
        return self.patch.loader

    def refuse_or_report(self, reason: str) -> None:
        """Refuse something that makes a resume inexact, or report it once.

        Raises:
            ConfigError: if `enforce_sampler_state` is set.
        """
        if self.config.enforce_sampler_state:
            raise ConfigError(
                f"under policy {self.config.policy!r} a resume would not be exact: {reason}. "
                "Change that, or set enforce_sampler_state=False to train without this guarantee"
            )
        self.report(reason)

    def report(self, reason: str) -> None:
        """Report once what makes a resume inexact."""
        if reason not in self.problems:
            self.problems.append(reason)
            self._report(f"a resume will not be exact: {reason}")


def warn_user(text: str) -> None:
    """Report a problem as a `UserWarning`: the default where no `report` is given."""
    warnings.warn(text, UserWarning, stacklevel=4)


class FetchedBatch(NamedTuple):
    """A batch for the loop, its ids, and a callback for when it was trained on."""

    batch: Any
    ids: Sequence[Any]
    on_trained: Callable[[], object]


class BatchSource:
    """The batches of one pass, unpacked.

    This is a class and not a generator, because a generator ends with its first error. A loader's
    own iterator continues after an error of one batch.

    Args:
        inner: the loader's iterator.
        unpack: turns what the loader gives into a `FetchedBatch`; None drops it.
        first: a context manager around the first batch.
    """

    def __init__(
        self,
        inner: Iterator[Any],
        unpack: Callable[[Any], FetchedBatch | None],
        first: AbstractContextManager[Any] | None = None,
    ) -> None:
        self.inner, self._unpack, self._first = inner, unpack, first

    def __iter__(self) -> BatchSource:
        return self

    def __next__(self) -> FetchedBatch:
        while True:
            batch = next(self.inner) if self._first is None else self._guarded(self._first)
            fetched = self._unpack(batch)
            if fetched is not None:
                return fetched

    def _guarded(self, guard: AbstractContextManager[Any]) -> Any:
        self._first = None
        with guard:
            return next(self.inner)


class OrderStrategy(ABC):
    """One policy on one kind of dataset.

    The methods that are not abstract suit a policy whose order follows from epoch and cursor alone.
    """

    def __init__(self, context: LoaderContext) -> None:
        self._context = context

    @abstractmethod
    def replacements(self) -> Mapping[str, Any]:
        """The loader's attributes to replace, by name."""

    @abstractmethod
    def open_pass(self, *, resume: bool) -> BatchSource:
        """Begin a pass at the cursor.

        Args:
            resume: whether this pass had begun before, in this process or in one that ended.
        """

    @abstractmethod
    def use_sampler(self, sampler: Any) -> None:
        """Draw from another sampler, beginning with the next pass."""

    def begin_epoch(self) -> None:  # noqa: B027 - most policies keep nothing of an epoch
        """Learn that the cursor is now at the start of another epoch."""

    def release(self) -> None:
        """Prepare the loader to be given back: drop its workers, which hold the proxies."""
        self._context.loader._iterator = None

    def state(self) -> dict[str, Any]:
        """What to save besides epoch and cursor."""
        return {}

    def load(self, state: Mapping[str, Any]) -> None:  # noqa: B027 - `state` is empty
        """Restore what `state` returned."""

    def random_state(self) -> RandomState | None:
        """Random states to save. They are separate from `state` because they are large."""
        return None

    def load_random_state(self, state: RandomState | None) -> None:  # noqa: B027 - there is none
        """Restore what `random_state` returned."""

    def _worker_seed(self, seed: int) -> AbstractContextManager[None]:
        """Seed a block: the base seed of workers must not come from the training's generators."""
        key = stream_key(seed, "workers", self._context.cursor.epoch)
        return temporary_seed(key, find_generators(self._context.loader.generator))


class BatchIds:
    """The ids of the batches of one pass, in the order in which the loop receives them."""

    def __init__(self, sampler: SamplerProxy) -> None:
        self._sampler, self._before = sampler, sampler.drawn_ids
        self._queue: deque[Sequence[Any]] | None = None

    def bind(self) -> bool:
        """Bind to the queue of the pass; False if the loader has not called its sampler yet."""
        # A loader whose `__iter__` is a generator calls its sampler only with the first batch.
        if self._queue is None and self._sampler.drawn_ids is not self._before:
            self._queue = self._sampler.drawn_ids
        return self._queue is not None

    def next(self) -> Sequence[Any]:
        """The ids of the batch just received."""
        if self._queue is None:
            self.bind()
        return self._queue.popleft() if self._queue else ()

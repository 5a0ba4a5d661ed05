"""`BatchFeed`: fetches batches with their ids from the user's loader, under its order policy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from torch.utils.data import IterableDataset

from midstep.data.order.order_strategy import OrderConfig
from midstep.data.order.ordered_loader import OrderedLoader
from midstep.data.order.samplers import nested_samplers


class BatchFeed:
    """Fetches the batches of a session, one at a time.

    Args:
        loader: the user's loader.
        config: the order policy.
        report: called once for each thing that is not exact, if that is not refused.
    """

    def __init__(
        self, loader: Any, config: OrderConfig, *, report: Callable[[str], object]
    ) -> None:
        self._config, self._last = config, _LastIds()
        self.order = OrderedLoader(loader, config, listener=self._last, report=report)
        batched = loader.batch_sampler is not None
        self._samplers = nested_samplers(loader.batch_sampler if batched else loader.sampler)
        self.batches_per_epoch = _length(loader)
        """None if the loader has no length."""
        self._pass: Iterator[Any] | None = None
        self._fetched: list[Any] = []  # empty, or the next batch

    def fetch(self) -> bool:
        """Fetch the next batch unless that is done; False at the end of the epoch."""
        if self._fetched:
            return True
        # Only now, not at the end of the last pass: making an iterator draws from a generator, and
        # a snapshot taken in between must not have that draw.
        if self._pass is None:
            self._set_sampler_epochs()
            self._pass = iter(self.order)
        try:
            self._fetched = [next(self._pass)]
        except StopIteration:
            return False
        return True

    def take(self) -> tuple[Any, Sequence[Any]]:
        """The fetched batch and its ids."""
        return self._fetched.pop(), self._last.ids

    def reset(self) -> None:
        """Drop the running pass, because the position in the order changes."""
        self._pass = None
        self._fetched.clear()

    def _set_sampler_epochs(self) -> None:
        """Call `set_epoch` of a distributed sampler, as a plain loop would."""
        self.order.set_epoch(self.order.epoch)
        if not self._config.seeded:  # a seeded policy calls it itself, before it draws
            for sampler in self._samplers:
                if hasattr(sampler, "set_epoch"):
                    sampler.set_epoch(self.order.epoch)


class _LastIds:
    """A listener of the loader that holds the ids of its last batch."""

    def __init__(self) -> None:
        self.ids: Sequence[Any] = ()

    def before_batch(self) -> None:
        """Nothing: a session has its boundary elsewhere."""

    def after_batch(self, batch: Any, ids: Sequence[Any] | None) -> None:
        """The loader gave a batch."""
        del batch
        self.ids = ids or ()

    def pass_ended(self) -> None:
        """Nothing: `fetch` returns False."""


def _length(loader: Any) -> int | None:
    if isinstance(loader.dataset, IterableDataset):
        return None  # its `len` may be wrong, and torch warns if it is
    try:
        return len(loader)
    except TypeError:
        return None

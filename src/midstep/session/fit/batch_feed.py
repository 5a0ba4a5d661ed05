"""Batches for a session's steps, one at a time, from the user's loader under its order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from torch.utils.data import IterableDataset

from midstep.data.order.ordered_loader import OrderedLoader
from midstep.data.order.samplers import nested_samplers
from midstep.data.order.strategy import OrderConfig


class BatchFeed:
    """Pulls batches with their ids; which pass runs follows from the place in the order.

    Args:
        loader: the user's loader.
        config: how it is ordered.
        report: told once of each thing that is not exact, if that is not refused.
    """

    def __init__(
        self, loader: Any, config: OrderConfig, *, report: Callable[[str], object]
    ) -> None:
        self._config, self._heard = config, _Ids()
        self.order = OrderedLoader(loader, config, listener=self._heard, report=report)
        batched = loader.batch_sampler is not None
        self._samplers = nested_samplers(loader.batch_sampler if batched else loader.sampler)
        self.batches_per_epoch = _length(loader)
        """None where nobody can say."""
        self._pass: Iterator[Any] | None = None
        self._at_hand: list[Any] = []

    def fetch(self) -> bool:
        """Have the next batch at hand; False at the end of the epoch."""
        if self._at_hand:
            return True
        if self._pass is None:
            self._tell_samplers()
            self._pass = iter(self.order)
        try:
            self._at_hand = [next(self._pass)]
        except StopIteration:
            return False
        return True

    def take(self) -> tuple[Any, Sequence[Any]]:
        """The batch at hand and its ids."""
        return self._at_hand.pop(), self._heard.ids

    def reset(self) -> None:
        """Let go of the running pass: the place in the order was changed, or will be."""
        self._pass = None
        self._at_hand.clear()

    def _tell_samplers(self) -> None:
        """A distributed sampler is told its epoch, as a loop of the user's would do."""
        self.order.set_epoch(self.order.epoch)
        if not self._config.seeded:  # else whoever draws under the seed tells them
            for sampler in self._samplers:
                if hasattr(sampler, "set_epoch"):
                    sampler.set_epoch(self.order.epoch)


class _Ids:
    """Listens to the loader for the ids of the batch it gave last."""

    def __init__(self) -> None:
        self.ids: Sequence[Any] = ()

    def before_batch(self) -> None:
        """Nothing: the boundary is the session's own."""

    def after_batch(self, batch: Any, ids: Sequence[Any] | None) -> None:
        """A batch was given."""
        del batch
        self.ids = ids or ()

    def pass_ended(self) -> None:
        """Nothing: the session sees it too."""


def _length(loader: Any) -> int | None:
    if isinstance(loader.dataset, IterableDataset):
        return None
    try:
        return len(loader)
    except TypeError:
        return None

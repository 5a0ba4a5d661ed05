"""The loader of an attached loop: under an order policy where that is possible."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from midstep.core.errors import ConfigError

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from midstep.data.courses import OrderConfig
    from midstep.data.ordered_loader import OrderedLoader
    from midstep.data.passes import BatchListener

__all__ = ["AttachedLoader"]


class _Ears:
    """A listener that can be given later who really listens."""

    def __init__(self) -> None:
        self.before_batch: Callable[[], None] = _nothing
        self.after_batch: Callable[[Any, Sequence[Any] | None], None] = _nothing
        self.pass_ended: Callable[[], None] = _nothing


def _nothing(*_: Any) -> None:
    """Nobody listens yet, or any more."""


class AttachedLoader:
    """Whatever the loop iterates over, made to meet its boundaries.

    Args:
        loader: a `DataLoader`, or any object with an `__iter__` of its own.
        config: the policy; a seeded one needs a `DataLoader`.
        report: told once of each thing that a resume or a step back cannot make exact.

    Raises:
        ConfigError: if the loop could not be followed, or not under this policy.
    """

    def __init__(
        self,
        loader: Any,
        config: OrderConfig,
        report: Callable[[str], object],
    ) -> None:
        from midstep.data.ordered_loader import OrderedLoader
        from midstep.live.foreign import ForeignLoader

        self._ears = _Ears()
        self.unordered = _why_unordered(loader)
        """Why there is no way back to a place in it; None if there is."""
        self.order: OrderedLoader | None = None
        """The order, where there is one."""
        if self.unordered is None:
            self.order = OrderedLoader(loader, config, listener=self._ears, report=report)
        elif config.seeded:
            raise ConfigError(
                f"data_order_policy {config.policy!r} cannot be had: {self.unordered}"
            )
        self.change: AbstractContextManager[Any] = self.order or ForeignLoader(loader, self._ears)
        """The change to the loader, for as long as its block lasts."""

    def tell(self, listener: BatchListener) -> None:
        """From now on `listener` is told of every batch and its ids."""
        ears = self._ears
        ears.before_batch, ears.after_batch = listener.before_batch, listener.after_batch
        ears.pass_ended = listener.pass_ended


def _why_unordered(loader: Any) -> str | None:
    """Why a loader cannot be put under an order policy, in words; None if it can."""
    from torch.utils.data import DataLoader, IterableDataset, IterDataPipe, MapDataPipe

    if not isinstance(loader, DataLoader):
        return f"the order of a {type(loader).__name__} is unknown; use a DataLoader"
    if isinstance(loader.dataset, IterDataPipe | MapDataPipe):
        return "a data pipe seeds itself; wrap its data in a Dataset or IterableDataset"
    if isinstance(loader.dataset, IterableDataset) and loader._iterator is not None:
        return "its workers live already and read a stream; attach before the first pass"
    return None

"""Hooks on the loader and the optimizer of a plain loop. They call a `LoopPort`.

Each hook is removed when its block ends.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from midstep.core.errors import ConfigError
from midstep.data.batch_structure import count_samples

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from torch.optim import Optimizer

    from midstep.data.order.order_strategy import OrderConfig
    from midstep.data.order.ordered_loader import BatchListener, OrderedLoader
    from midstep.live.loop_port import LoopPort


@contextmanager
def hook_optimizer(optimizer: Optimizer, loop: LoopPort) -> Iterator[None]:
    """Call the port around each step of `optimizer`."""
    handles = [
        optimizer.register_step_pre_hook(loop.before_step),
        optimizer.register_step_post_hook(loop.after_step),
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


class LoaderListener:
    """A listener of the loader whose calls can be connected later."""

    def __init__(self) -> None:
        self.before_batch: Callable[[], None] = _nothing
        self.after_batch: Callable[[Any, Sequence[Any] | None], None] = _nothing
        self.pass_ended: Callable[[], None] = _nothing


def _nothing(*_: Any) -> None:
    """Before the loop is connected."""


class AttachedLoader:
    """The loader of an attached loop, with its order if it has one.

    Args:
        loader: a `DataLoader`, any object with an `__iter__` of its own, or None.
        config: the order policy; a seeded one needs a `DataLoader`.
        report: called once for each thing that a resume or a step back cannot repeat exactly.

    Raises:
        ConfigError: the loader cannot be patched, or not under this policy.
    """

    def __init__(
        self,
        loader: Any,
        config: OrderConfig,
        report: Callable[[str], object],
    ) -> None:
        from midstep.data.order.ordered_loader import OrderedLoader
        from midstep.data.order.step_order import StepOrder

        self._listener = LoaderListener()
        self.patch: AbstractContextManager[Any] = nullcontext()
        """Patches the loader for as long as its block lasts."""
        self.order: OrderedLoader | StepOrder | None = None
        """The order; None if it has none."""
        self.unordered: str | None = None
        """Why its order is unknown, in words; None if it has one."""
        if loader is None:
            if config.seeded:
                raise ConfigError(f"data_order_policy={config.policy!r} needs a DataLoader")
            self.order = StepOrder()
            return
        self.unordered = _why_unordered(loader)
        if self.unordered is None:
            ordered = OrderedLoader(loader, config, listener=self._listener, report=report)
            self.order = self.patch = ordered
            return
        if config.seeded:
            raise ConfigError(
                f"data_order_policy={config.policy!r} is not possible: {self.unordered}"
            )
        self.patch = UnorderedLoader(loader, self._listener)

    def listen(self, listener: BatchListener) -> None:
        """Call `listener` with every batch and its ids from now on."""
        calls = self._listener
        calls.before_batch, calls.after_batch = listener.before_batch, listener.after_batch
        calls.pass_ended = listener.pass_ended


def _why_unordered(loader: Any) -> str | None:
    """Why a loader cannot have an order policy, in words; None if it can."""
    from torch.utils.data import DataLoader, IterableDataset, IterDataPipe, MapDataPipe

    if not hasattr(type(loader), "__iter__"):
        raise ConfigError(
            f"a {type(loader).__name__} has no __iter__, so it cannot be attached as a loader; "
            "leave it out and loop over `for step in run.steps(n)`, with run.batch(…) for its "
            "batches"
        )
    if not isinstance(loader, DataLoader):
        return f"the order of a {type(loader).__name__} is unknown; use a DataLoader"
    if isinstance(loader.dataset, IterDataPipe | MapDataPipe):
        return "a data pipe seeds itself; wrap its data in a Dataset or IterableDataset"
    if isinstance(loader.dataset, IterableDataset) and loader._iterator is not None:
        return "its workers already read a stream; attach before the first pass over it"
    return None


class UnorderedLoader:
    """Patches the class of a loader without an order, for as long as a block lasts."""

    def __init__(self, loader: Any, listener: BatchListener) -> None:
        self._loader, self._class, self._listener = loader, type(loader), listener
        if hasattr(loader, "_midstep_patch"):
            raise ConfigError("this loader is already attached; leave that block first")
        self._patched = self._subclass()

    def __enter__(self) -> UnorderedLoader:
        self._loader.__class__ = self._patched
        return self

    def __exit__(self, *_: object) -> None:
        self._loader.__class__ = self._class
        self._loader = None  # the patched class is in a cycle and lives longer than the loader may

    def _subclass(self) -> Any:
        """The loader's class with our `__iter__`, tried on the loader before the run begins."""
        listener, inner = self._listener, self._class.__iter__
        members = {
            "__iter__": lambda loader: _Batches(inner(loader), listener),
            "__module__": self._class.__module__,
            "__slots__": (),  # the same layout, so that the class of a living object may change
            "_midstep_patch": True,
        }
        try:
            patched: Any = type(self._class.__name__, (self._class,), members)
            self._loader.__class__ = patched
        except TypeError as error:
            raise ConfigError(
                f"a {self._class.__name__} cannot be attached ({error}); use a DataLoader, or "
                "leave it out and loop over `for step in run.steps(n)`, with run.batch(…) for its "
                "batches"
            ) from None
        self._loader.__class__ = self._class
        return patched


class _Batches:
    """One pass over the loader, batch by batch."""

    def __init__(self, inner: Iterator[Any], listener: BatchListener) -> None:
        self._inner, self._listener = inner, listener
        self._position = 0

    def __iter__(self) -> _Batches:
        return self

    def __len__(self) -> int:
        return len(self._inner)  # type: ignore[arg-type]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def __next__(self) -> Any:
        self._listener.before_batch()
        try:
            batch = next(self._inner)
        except StopIteration:
            self._listener.pass_ended()
            raise
        # The loader has no sampler to tell ids, so samples are numbered in the order they come.
        start, self._position = self._position, self._position + (count_samples(batch) or 0)
        self._listener.after_batch(batch, range(start, self._position))
        return batch

"""Hooks on the user's objects, each taken off again when its block ends.

An error of ours inside a hook switches that hook off, says so once, and training goes on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from midstep.core.errors import ConfigError
from midstep.data.batch_structure import count_samples

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from torch.optim import Optimizer

    from midstep.data.order.ordered_loader import BatchListener, OrderedLoader
    from midstep.data.order.strategy import OrderConfig


log = logging.getLogger("midstep.live")


class StepListener(Protocol):
    """Who is told of optimizer steps and losses."""

    def before_step(self) -> None:
        """The gradients are there, the step is about to be made."""
        ...

    def after_step(self) -> None:
        """The step was made."""
        ...

    def loss_known(self, arguments: Sequence[Any], output: Any) -> None:
        """The loss module gave `output` for `arguments`."""
        ...


@contextmanager
def hook_optimizer(optimizer: Optimizer, listener: StepListener) -> Iterator[None]:
    """Tell the listener of each step that `optimizer` makes."""
    before = disable_on_error(listener.before_step, "reading the gradients")
    handles = [
        optimizer.register_step_pre_hook(lambda *_: before()),
        optimizer.register_step_post_hook(lambda *_: listener.after_step()),
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def hook_loss(loss_fn: Any, listener: StepListener) -> Iterator[None]:
    """Tell the listener what a loss module gives; a plain function cannot be listened to."""
    if not hasattr(loss_fn, "register_forward_hook"):
        yield
        return
    known = disable_on_error(listener.loss_known, "reading the loss")
    handle = loss_fn.register_forward_hook(lambda _module, given, output: known(given, output))
    try:
        yield
    finally:
        handle.remove()


def disable_on_error(work: Callable[..., None], words: str) -> Callable[..., None]:
    """`work`, until it raises for the first time; from then on nothing, and a line in the log."""
    broken = False

    def guarded(*arguments: Any, **named: Any) -> None:
        nonlocal broken
        if broken:
            return
        try:
            work(*arguments, **named)
        except Exception:
            # A fault of ours must not end somebody's training; what it costs is said in the log.
            broken = True
            log.exception("%s failed and is off; training goes on", words)

    return guarded


class LoaderListener:
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
        from midstep.data.order.ordered_loader import OrderedLoader

        self._ears = LoaderListener()
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
        self.change: AbstractContextManager[Any] = self.order or UnorderedLoader(loader, self._ears)
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


class UnorderedLoader:
    """The change to one loader, for as long as a block lasts."""

    def __init__(self, loader: Any, listener: BatchListener) -> None:
        self._loader, self._class, self._listener = loader, type(loader), listener
        if hasattr(loader, "_midstep_patch"):
            raise ConfigError("this loader is attached already; leave the first block before")
        self._changed = self._subclass()

    def __enter__(self) -> UnorderedLoader:
        self._loader.__class__ = self._changed
        return self

    def __exit__(self, *_: object) -> None:
        self._loader.__class__ = self._class
        self._loader = None  # its class lives until the garbage collector comes; it must not

    def _subclass(self) -> Any:
        """The loader's class with our `__iter__`, tried on the loader before anything begins."""
        listener, inner = self._listener, self._class.__iter__
        members = {
            "__iter__": lambda loader: _Batches(inner(loader), listener),
            "__module__": self._class.__module__,
            "__slots__": (),  # the same layout, so that the class of a living object may change
            "_midstep_patch": True,
        }
        try:
            changed: Any = type(self._class.__name__, (self._class,), members)
            self._loader.__class__ = changed
        except TypeError as error:
            raise ConfigError(
                f"a {self._class.__name__} cannot be attached ({error}); use a DataLoader, or call "
                "capture_batch and wait_if_paused in the loop"
            ) from None
        self._loader.__class__ = self._class
        return changed


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
        start, self._position = self._position, self._position + (count_samples(batch) or 0)
        self._listener.after_batch(batch, range(start, self._position))
        return batch

"""A loader of the user's own class, changed in place so that a `for` loop meets its boundaries.

Its order is nobody's to know: samples get their position in the pass as ids, and there is no way
back to a place in it. A `DataLoader` goes through `midstep.data.ordered_loader` instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from midstep.core.errors import ConfigError
from midstep.session.batches import count_samples

if TYPE_CHECKING:
    from collections.abc import Iterator

    from midstep.data.passes import BatchListener

__all__ = ["ForeignLoader"]


class ForeignLoader:
    """The change to one loader, for as long as a block lasts."""

    def __init__(self, loader: Any, listener: BatchListener) -> None:
        self._loader, self._class, self._listener = loader, type(loader), listener
        if hasattr(loader, "_midstep_patch"):
            raise ConfigError("this loader is attached already; leave the first block before")
        self._changed = self._subclass()

    def __enter__(self) -> ForeignLoader:
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

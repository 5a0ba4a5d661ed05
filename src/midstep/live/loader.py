"""A loader changed in place, so that a plain `for` loop over it meets its boundaries.

Three things change while it is attached and are put back at the end: the loader's class becomes a
subclass of itself with another `__iter__`, its index sampler is wrapped in a tee that notes the
ids it hands out, and a living iterator of persistent workers gets the same tee. Nothing is drawn,
seeded or moved: the tee calls `iter` on the sampler exactly as often as the loader does.
"""

from __future__ import annotations

import operator
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from midstep.core.errors import ConfigError
from midstep.live.batches import count_samples

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    Ids = Sequence[int] | None

__all__ = ["Listener", "LoaderPatch"]


class Listener(Protocol):
    """Who is told what the loop does with the loader; all calls come from the training thread."""

    def before_batch(self) -> None:
        """The loop asks for its next batch; the step before is over."""
        ...

    def after_batch(self, batch: Any, ids: Ids) -> None:
        """The loop is given a batch."""
        ...

    def pass_ended(self) -> None:
        """The loader has no further batch."""
        ...


class LoaderPatch:
    """The change to one loader, for as long as a block lasts."""

    def __init__(self, loader: Any) -> None:
        self._loader, self._class = loader, type(loader)
        self._tee: _Tee | None = None
        if hasattr(loader, "_midstep_patch"):
            raise ConfigError("this loader is attached already; leave the first block before")
        if getattr(loader, "num_workers", 0) and not getattr(loader, "in_order", True):
            raise ConfigError(
                "the loader has in_order=False, so nobody can say which batch is next; "
                "make it with in_order=True"
            )
        self._changed = self._subclass()

    @contextmanager
    def applied(self, listener: Listener) -> Iterator[None]:
        """Change the loader in place, and put it back."""
        self._listener = listener
        self._loader.__class__ = self._changed
        self._put_tee()
        try:
            yield
        finally:
            self._loader.__class__ = self._class
            if self._tee is not None:
                self._set_sampler(self._tee.inner)
            # A class lives until the garbage collector comes; it must not keep the loader, whose
            # workers end when the user lets go of it.
            self._loader = self._tee = None

    def _subclass(self) -> Any:
        """The loader's class with our `__iter__`, tried on the loader before anything begins."""
        patch = self

        def iterate(loader: Any) -> _Batches:
            inner: Any = super(changed, loader)
            return patch._begin_pass(inner.__iter__)

        members = {
            "__iter__": iterate,
            "__module__": self._class.__module__,
            "__slots__": (),  # the same layout, so that the class of a living object may change
            "_midstep_patch": self,
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

    def _put_tee(self) -> None:
        """Tee the sampler of a map-style loader; other loaders get positions as ids."""
        from torch.utils.data import DataLoader, IterableDataset

        loader = self._loader
        if isinstance(loader, DataLoader) and not isinstance(loader.dataset, IterableDataset):
            self._tee = _Tee(loader._index_sampler)
            self._set_sampler(self._tee)

    def _set_sampler(self, sampler: Any) -> None:
        """Past the loader's own `__setattr__`, which refuses, and into a living iterator."""
        loader = self._loader
        which = "sampler" if loader.batch_sampler is None else "batch_sampler"
        object.__setattr__(loader, which, sampler)
        if loader._iterator is not None:
            loader._iterator._index_sampler = sampler

    def _begin_pass(self, begin: Callable[[], Iterator[Any]]) -> _Batches:
        before = self._tee.drawn if self._tee is not None else None
        inner = begin()
        drawn = self._tee.drawn if self._tee is not None else None
        # A loader whose `__iter__` is a generator asks its sampler only with the first batch.
        return _Batches(inner, self._tee, drawn if drawn is not before else None, self._listener)


class _Batches:
    """One pass over the loader, batch by batch."""

    def __init__(
        self, inner: Iterator[Any], tee: _Tee | None, drawn: deque[Ids] | None, listener: Listener
    ) -> None:
        self._inner, self._tee, self._drawn, self._listener = inner, tee, drawn, listener
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
        self._listener.after_batch(batch, self._ids_of(batch))
        return batch

    def _ids_of(self, batch: Any) -> Ids:
        """What the sampler drew for this batch, else positions in the pass."""
        if self._tee is None:
            start, self._position = self._position, self._position + (count_samples(batch) or 0)
            return range(start, self._position)
        if self._drawn is None:
            self._drawn = self._tee.drawn
        return self._drawn.popleft() if self._drawn else None


class _Tee:
    """The user's (batch) sampler, with a note of what each pass has drawn."""

    def __init__(self, inner: Any) -> None:
        object.__setattr__(self, "inner", inner)
        object.__setattr__(self, "drawn", deque())

    inner: Any
    drawn: deque[Ids]

    def __iter__(self) -> _TeeIterator:
        # A new queue for each pass: one given up half-way leaves ids that nobody is to get.
        object.__setattr__(self, "drawn", deque())
        return _TeeIterator(iter(self.inner), self.drawn)

    def __len__(self) -> int:
        return len(self.inner)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.inner, name, value)


class _TeeIterator:
    def __init__(self, inner: Iterator[Any], drawn: deque[Ids]) -> None:
        self._inner, self._drawn = inner, drawn

    def __iter__(self) -> _TeeIterator:
        return self

    def __next__(self) -> Any:
        index = next(self._inner)
        self._drawn.append(_as_ids(index))
        return index


def _as_ids(index: Any) -> Ids:
    """One index or a batch of them as integers; None where they are none (names, pairs)."""
    try:
        if hasattr(index, "__index__") and not hasattr(index, "__len__"):
            return (operator.index(index),)
        return tuple(index.tolist() if hasattr(index, "tolist") else map(operator.index, index))
    except TypeError:
        return None

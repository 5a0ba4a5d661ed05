"""Change a user's `DataLoader` in place, and give it back.

The user's variable keeps naming the same object, so the training loop needs no change.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from torch.utils.data import DataLoader

from midstep.core.errors import ConfigError

DrawnIndices = Iterator[tuple[Sequence[Any], Any]]
"""For each batch its ids, and the index that the loader gets from its sampler."""


class LoaderPatch:
    """The change to one loader: a subclass with another `__iter__`, and proxies for its parts.

    Args:
        loader: the user's loader.
        iterate: called instead of `loader.__iter__`.

    Raises:
        ConfigError: if the loader cannot be changed, or its order cannot be known.
    """

    def __init__(self, loader: Any, iterate: Callable[[], Iterator[Any]]) -> None:
        _check_loader(loader)
        self.loader, self._original_class = loader, type(loader)
        self._replaced: dict[str, tuple[Any, Any]] = {}
        self._iterate = [iterate]  # in a list, so that `remove` can empty it for the class too
        members = {
            "__iter__": lambda _loader, called=self._iterate: called[0](),
            "__module__": self._original_class.__module__,
            # Python changes the class of an existing object only to one with the same layout. A
            # mixin before the original class fails for the same reason.
            "__slots__": (),
            "_midstep_patch": True,
        }
        # Try the change of class now, so that a loader that does not allow it is refused before
        # any part of it is replaced.
        name = self._original_class.__name__
        try:
            self._patched_class: Any = type(name, (self._original_class,), members)
            loader.__class__ = self._patched_class
        except TypeError as error:
            raise ConfigError(f"a {name} cannot be changed in place ({error})") from None
        loader.__class__ = self._original_class

    @property
    def batched(self) -> bool:
        """Whether the loader collates batches, and not single samples."""
        return self.loader.batch_sampler is not None

    @property
    def sampler_name(self) -> str:
        """The attribute that holds the sampler the loader draws from."""
        return "batch_sampler" if self.batched else "sampler"

    @property
    def has_persistent_workers(self) -> bool:
        """Whether workers stay alive from one epoch to the next."""
        return bool(self.loader.num_workers and self.loader.persistent_workers)

    def apply(self, replacements: Mapping[str, Any]) -> None:
        """Change the class of the loader, and replace these attributes of it."""
        self.loader.__class__ = self._patched_class
        for name, replacement in replacements.items():
            self._replaced[name] = (getattr(self.loader, name), replacement)
            # The `__setattr__` of a DataLoader refuses to replace dataset, sampler, batch_sampler,
            # batch_size, drop_last and persistent_workers.
            object.__setattr__(self.loader, name, replacement)

    def remove(self) -> None:
        """Give the loader back as it was; attributes that the user set meanwhile stay."""
        self.loader.__class__ = self._original_class
        for name, (original, replacement) in self._replaced.items():
            if getattr(self.loader, name) is replacement:
                object.__setattr__(self.loader, name, original)
        self._replaced.clear()
        # The patched class lives until the garbage collector runs. It must not hold the loader
        # until then, because workers end only when nothing refers to their loader any more.
        self._iterate.clear()
        self.loader = None

    def begin_pass(self) -> Iterator[Any]:
        """Begin a pass with the loader's own `__iter__`, over the replaced parts."""
        inner: Iterator[Any] = self._original_class.__iter__(self.loader)
        return inner


def _check_loader(loader: Any) -> None:
    """Refuse a loader whose order cannot be known."""
    if not isinstance(loader, DataLoader):
        raise ConfigError(f"the order of a {type(loader).__name__} is unknown; use a DataLoader")
    if hasattr(loader, "_midstep_patch"):
        raise ConfigError(
            "this loader is attached already; end the `with` block that holds it before you "
            "begin another"
        )
    # Ids are queued as they are drawn, and one entry is taken for each batch received. With
    # in_order=False batches arrive in another order than their ids.
    if loader.num_workers and not getattr(loader, "in_order", True):
        raise ConfigError(
            "the loader has in_order=False, so it is unknown which batch comes next; "
            "create it with in_order=True"
        )


class Proxy:
    """Replaces a part of the user's loader. What it does not define itself goes to that part.

    Args:
        inner: the replaced sampler or dataset.
        **attributes: attributes of the proxy itself.
    """

    def __init__(self, inner: Any, **attributes: Any) -> None:
        vars(self).update(attributes, inner=inner)  # `__setattr__` would set them on `inner`

    inner: Any

    def __len__(self) -> int:
        return len(self.inner)

    def __getattr__(self, name: str) -> Any:
        # During unpickling `inner` does not exist yet, and looking it up would not end.
        if name.startswith("__") or name == "inner":
            raise AttributeError(name)
        return getattr(self.inner, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.inner, name, value)  # a `worker_init_fn` sets up its dataset this way


class SamplerProxy(Proxy):
    """Replaces the user's (batch) sampler. The loader gets the indices that a policy draws.

    Args:
        inner: the user's sampler.
        draw: called once per `iter`; gives the ids of each batch and the index for the loader.
    """

    def __init__(self, inner: Any, draw: Callable[[], DrawnIndices]) -> None:
        super().__init__(inner, _draw=draw, drawn_ids=deque())

    _draw: Callable[[], DrawnIndices]
    drawn_ids: deque[Sequence[Any]]
    """Ids of the batches drawn in the latest pass and not yet received by the loop."""

    def __iter__(self) -> Iterator[Any]:
        # Each pass gets a new queue: a pass that was broken off leaves ids in the old one.
        queue: deque[Sequence[Any]] = deque()
        vars(self)["drawn_ids"] = queue
        return _record_ids(self._draw(), queue)

    def use_sampler(self, inner: Any) -> None:
        """Replace another sampler from now on."""
        vars(self)["inner"] = inner


def _record_ids(indices: DrawnIndices, queue: deque[Sequence[Any]]) -> Iterator[Any]:
    for ids, index in indices:
        queue.append(ids)
        yield index

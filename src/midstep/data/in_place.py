"""A loader changed where it stands: the user's variable goes on naming it, and gets it back."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from torch.utils.data import DataLoader

from midstep.core.errors import ConfigError

__all__ = ["InPlace", "SamplerStandIn"]

Draws = Iterator[tuple[Sequence[Any], Any]]


class InPlace:
    """The change to one loader: a subclass with another `__iter__`, and stand-ins for its parts.

    Args:
        loader: the user's loader.
        iterate: called instead of `loader.__iter__`.
    """

    def __init__(self, loader: Any, iterate: Callable[[], Iterator[Any]]) -> None:
        self.loader, self._class = _checked(loader), type(loader)
        self._kept: dict[str, tuple[Any, Any]] = {}
        self._iterate = [iterate]
        members = {
            "__iter__": lambda _loader, called=self._iterate: called[0](),
            "__module__": self._class.__module__,
            "__slots__": (),  # the same layout, so that the class of a living object may change
            "_midstep_patch": True,
        }
        try:
            self._changed: Any = type(self._class.__name__, (self._class,), members)
            loader.__class__ = self._changed
        except TypeError as error:
            name = self._class.__name__
            raise ConfigError(f"a {name} cannot be changed in place ({error})") from None
        loader.__class__ = self._class

    @property
    def batched(self) -> bool:
        """Whether the loader collates batches, and not single samples."""
        return self.loader.batch_sampler is not None

    @property
    def sampler_name(self) -> str:
        """The attribute that holds the sampler in charge."""
        return "batch_sampler" if self.batched else "sampler"

    @property
    def keeps_workers(self) -> bool:
        """Whether workers live on from one epoch to the next."""
        return bool(self.loader.num_workers and self.loader.persistent_workers)

    def put(self, stand_ins: Mapping[str, Any]) -> None:
        """Change the loader, past its own `__setattr__`, which refuses."""
        self.loader.__class__ = self._changed
        for name, stand_in in stand_ins.items():
            self._kept[name] = (getattr(self.loader, name), stand_in)
            object.__setattr__(self.loader, name, stand_in)

    def take_back(self) -> None:
        """Give the loader back as it was, and what the user changed meanwhile as it is."""
        self.loader.__class__ = self._class
        for name, (original, stand_in) in self._kept.items():
            if getattr(self.loader, name) is stand_in:
                object.__setattr__(self.loader, name, original)
        self._kept.clear()
        # A class lives until the garbage collector comes; neither it nor we may keep the loader,
        # whose workers end when the user lets go of it.
        self._iterate.clear()
        self.loader = None

    def begin(self) -> Iterator[Any]:
        """A pass as the loader itself begins it, with what stands in."""
        inner: Iterator[Any] = self._class.__iter__(self.loader)
        return inner


def _checked(loader: Any) -> Any:
    """A loader whose order can be known, or the reason why not."""
    if not isinstance(loader, DataLoader):
        raise ConfigError(f"the order of a {type(loader).__name__} is unknown; use a DataLoader")
    if hasattr(loader, "_midstep_patch"):
        raise ConfigError("this loader is attached already; leave the first block before")
    if loader.num_workers and not getattr(loader, "in_order", True):
        raise ConfigError(
            "the loader has in_order=False, so nobody can say which batch is next; "
            "make it with in_order=True"
        )
    return loader


class SamplerStandIn:
    """The user's (batch) sampler to everybody who looks at it; to the loader, a policy's draws.

    Args:
        inner: the user's sampler.
        draw: called once per `iter`; gives the ids of each batch and what the loader is to get.
    """

    def __init__(self, inner: Any, draw: Callable[[], Draws]) -> None:
        object.__setattr__(self, "inner", inner)
        object.__setattr__(self, "_draw", draw)
        object.__setattr__(self, "drawn", deque())

    inner: Any
    _draw: Callable[[], Draws]
    drawn: deque[Sequence[Any]]

    def __iter__(self) -> Iterator[Any]:
        # A new queue for each pass: one given up half-way leaves ids that nobody is to get.
        object.__setattr__(self, "drawn", deque())
        return _noted(self._draw(), self.drawn)

    def use(self, inner: Any) -> None:
        """Stand in for another sampler."""
        object.__setattr__(self, "inner", inner)

    def __len__(self) -> int:
        return len(self.inner)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.inner, name, value)


def _noted(draws: Draws, drawn: deque[Sequence[Any]]) -> Iterator[Any]:
    for ids, index in draws:
        drawn.append(ids)
        yield index

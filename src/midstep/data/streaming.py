"""An iterable dataset in a loader: one stream per worker, each with a place that can be saved.

The stand-in batches by itself, so that one guard covers a batch. Each batch travels with the worker
that made it and the dataset's state after it; the pass unwraps it in the main process. The loader
asks its workers in turn; after a resume those whose turn had passed give a blank first, which is
dropped, so the turn goes on where it was.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

from torch.utils.data import IterableDataset, get_worker_info

from midstep.core.errors import ControlError
from midstep.core.stateful import Stateful
from midstep.core.streams import stream_key
from midstep.data.fetching import one_thread
from midstep.data.randomness import RandomState, kept_random, seed_global

__all__ = ["Cue", "Place", "Shipment", "StreamCollate", "StreamStandIn"]

_received: list[Cue] = []
"""In a worker: the cue that came last through its index queue. A fetcher never shows a dataset its
index, so the cue puts itself here when it is unpickled."""


@dataclass(frozen=True)
class Place:
    """How far one worker's stream is.

    Args:
        position: samples it gave in this epoch.
        state: what the dataset's `state_dict` gave after them; None before the first.
        ended: whether the stream is at its end.
    """

    position: int = 0
    state: Any = None
    ended: bool = False


@dataclass(frozen=True)
class Cue:
    """What a worker is told as a pass begins: epoch, place, and whether its turn is over."""

    epoch: int
    place: Place
    blank: bool

    def __reduce__(self) -> tuple[Callable[..., Cue], tuple[Any, ...]]:
        return _receive, (self.epoch, self.place, self.blank)


def _receive(epoch: int, place: Place, blank: bool) -> Cue:
    cue = Cue(epoch, place, blank)
    _received[:] = [cue]
    return cue


@dataclass(frozen=True)
class Shipment:
    """A batch on its way to the main process, with the place of its worker after it."""

    worker: int
    epoch: int
    place: Place
    count: int = 0
    """Samples; 0 says that there is no batch, only a place."""
    batch: Any = None
    drew: bool = False
    """Whether reading or collating it moved a generator that dies with its worker."""

    def pin_memory(self) -> Shipment:
        """Pin the batch alone; the loader's pinning thread calls this."""
        from torch.utils.data._utils.pin_memory import pin_memory

        return replace(self, batch=pin_memory(self.batch))  # type: ignore[no-untyped-call]


class StreamStandIn(IterableDataset[Any]):
    """The user's iterable dataset, batched and with its place noted.

    Args:
        inner: the user's dataset.
        batch_size: None where the loader does not batch.
        drop_last: whether an incomplete last batch is left out.
        seed: the run's seed under a seeded policy; None seeds nothing.
    """

    def __init__(
        self, inner: Any, batch_size: int | None, *, drop_last: bool, seed: int | None
    ) -> None:
        own = {"inner": inner, "_size": batch_size, "_drop_last": drop_last, "_seed": seed}
        vars(self).update(own, _cue=None)

    inner: Any
    _size: int | None
    _drop_last: bool
    _seed: int | None
    _cue: Cue | None

    def give(self, cue: Cue) -> None:
        """In the main process, where nothing is pickled, the cue comes this way."""
        vars(self)["_cue"] = cue

    def __len__(self) -> int:
        return len(self.inner)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "inner":
            raise AttributeError(name)
        return getattr(self.inner, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.inner, name, value)  # a worker's init function sets its shard up so

    def __iter__(self) -> Iterator[Shipment]:
        """Begins with the first batch asked for: by then the cue is there."""
        info = get_worker_info()
        cue = _received[0] if info is not None else self._cue
        if cue is None:
            raise ControlError("iterate over the loader; its dataset alone has no place to begin")
        shipment = Shipment(info.id if info is not None else 0, cue.epoch, cue.place)
        if cue.blank:
            yield shipment
        with self._guard():
            self._seed_at(shipment)
            source = self._begun(cue)
        if not cue.place.ended:
            yield from self._batches(source, shipment)

    def _begun(self, cue: Cue) -> Iterator[Any]:
        if self._seed is not None and hasattr(self.inner, "set_epoch"):
            self.inner.set_epoch(cue.epoch)
        if cue.place.state is not None:
            self.inner.load_state_dict(copy.deepcopy(cue.place.state))
        return iter(()) if cue.place.ended else iter(self.inner)

    def _batches(self, source: Iterator[Any], last: Shipment) -> Iterator[Shipment]:
        """Batch after batch; if the stream ends between two, at last its place alone."""
        wanted, ended = self._size or 1, False
        while not ended:
            before = _watched(self._seed)
            with self._guard():
                samples = self._read(source, wanted, last)
            drew = _moved(before)
            ended = len(samples) < wanted
            if ended and self._drop_last:
                samples = []
            place = Place(last.place.position + len(samples), self._state(), ended)
            data = samples if self._size is not None else (samples or [None])[0]
            last = replace(last, place=place, count=len(samples), batch=data, drew=drew)
            yield last

    def _read(self, source: Iterator[Any], wanted: int, last: Shipment) -> list[Any]:
        samples: list[Any] = []
        with one_thread() if self._seed is not None else nullcontext():
            for ahead in range(wanted):
                self._seed_at(last, ahead)
                try:
                    samples.append(next(source))
                except StopIteration:
                    break
        return samples

    def _seed_at(self, last: Shipment, ahead: int = 0) -> None:
        """By worker and position.

        A dataset that shuffles as it begins does so in every worker alike, or its shards would
        overlap.
        """
        if self._seed is not None:
            position = last.place.position + ahead
            worker = last.worker if position else 0
            seed_global(stream_key(self._seed, "stream", last.epoch, worker, position))

    def _guard(self) -> AbstractContextManager[None]:
        return kept_random(cuda=False) if self._seed is not None else nullcontext()

    def _state(self) -> Any:
        return copy.deepcopy(self.inner.state_dict()) if isinstance(self.inner, Stateful) else None


class StreamCollate:
    """Collates what is in a shipment, in the process that made it."""

    def __init__(self, collate: Callable[[Any], Any], seed: int | None) -> None:
        self.collate, self.seed = collate, seed

    def __call__(self, given: Any) -> Any:
        """The shipment with its batch collated."""
        shipment = given[0] if isinstance(given, list) and len(given) == 1 else given
        if not isinstance(shipment, Shipment):
            return self.collate(given)  # the user calls the loader's collate_fn
        if not shipment.count:
            return shipment
        before = _watched(self.seed)
        batch = self._collated(shipment)
        return replace(shipment, batch=batch, drew=shipment.drew or _moved(before))

    def _collated(self, shipment: Shipment) -> Any:
        if self.seed is None:
            return self.collate(shipment.batch)
        with kept_random(cuda=False), one_thread():
            where = (shipment.epoch, shipment.worker, shipment.place.position)
            seed_global(stream_key(self.seed, "collate", *where))
            return self.collate(shipment.batch)


def _watched(seed: int | None) -> RandomState | None:
    """Where a worker's generators stand, if they are its own."""
    return RandomState.take(cuda=False) if seed is None and get_worker_info() is not None else None


def _moved(before: RandomState | None) -> bool:
    return before is not None and not before.same(RandomState.take(cuda=False))

"""Every policy on an iterable dataset: the dataset's own state is what is saved."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from itertools import count
from typing import Any

from midstep.core.errors import ConfigError, FormatError
from midstep.core.stateful import Stateful
from midstep.core.streams import stream_key
from midstep.data.courses import Setting, Source, Taken
from midstep.data.in_place import SamplerStandIn
from midstep.data.randomness import RandomState, generators_of, kept_random, seeded_random
from midstep.data.streaming import Cue, Place, Shipment, StreamCollate, StreamStandIn

__all__ = ["StreamCourse"]


class StreamCourse:
    """One place per worker, moved when a batch of that worker has been trained on."""

    def __init__(self, setting: Setting) -> None:
        self._setting, loader = setting, setting.loader
        self._seed = setting.config.sample_seed
        self._in_workers, self._workers = loader.num_workers > 0, max(1, loader.num_workers)
        self._stateful = isinstance(loader.dataset, Stateful)
        self._unused = copy.deepcopy(loader.dataset.state_dict()) if self._stateful else None
        self._places = [Place(0, self._unused)] * self._workers
        self._turn = 0
        self._given = 0
        self._loaded = False
        self._dataset = StreamStandIn(
            loader.dataset, loader.batch_size, drop_last=loader.drop_last, seed=self._seed
        )
        self._cues: list[Cue] = []
        if not self._stateful:
            name = type(loader.dataset).__name__
            setting.inexact(
                f"the iterable dataset {name} has no state_dict and load_state_dict, so it can "
                "only be read again from its start"
            )

    def stand_ins(self) -> Mapping[str, Any]:
        """Sampler, dataset and collate function."""
        loader, name = self._setting.loader, self._setting.place.sampler_name
        loader._iterator = None  # workers that live already have the bare dataset
        return {
            name: SamplerStandIn(getattr(loader, name), self._draw),
            "dataset": self._dataset,
            "collate_fn": StreamCollate(loader.collate_fn, self._seed),
        }

    def begin_epoch(self) -> None:
        """A dataset that lives on keeps its state; the copies in new workers are unused."""
        lives_on = not self._in_workers or self._setting.place.keeps_workers
        states = [each.state if lives_on else self._unused for each in self._places]
        self._places = [Place(0, state) for state in states]
        self._turn, self._loaded = 0, False

    def open(self, *, again: bool) -> Source:
        """A pass, each worker at its place; a pass begun for the first time loads no state."""
        trained = self._setting.trained
        known, self._loaded = again or self._loaded, False
        if trained.cursor != sum(place.position for place in self._places):
            raise FormatError(
                f"sample {trained.cursor} of a stream cannot be reached by its number; load a "
                "state that was saved there"
            )
        self._given = trained.cursor
        with self._guard(again=again):
            if again and trained.cursor and not self._stateful:
                return self._read_again()
            return self._begun(self._places if known else [Place()] * self._workers, self._turn)

    def _begun(self, places: list[Place], turn: int) -> Source:
        epoch = self._setting.trained.epoch
        self._cues = [Cue(epoch, place, worker < turn) for worker, place in enumerate(places)]
        inner: Any = self._setting.place.begin()
        # The places of streams at their end come beside the batches; they are none too many.
        inner._IterableDataset_len_called = None
        return Source(inner, self._unpacked, self._guard(again=False))

    def _read_again(self) -> Source:
        """Without states: from the start, dropping what was trained on."""
        source, left = self._begun([Place()] * self._workers, 0), self._setting.trained.cursor
        self._given = 0
        while left > 0:
            left -= len(next(source).ids)
        return source

    def _guard(self, *, again: bool) -> AbstractContextManager[None]:
        """Under a seeded policy, or when a pass is begun again, its base seed moves nothing."""
        generators = generators_of(self._setting.loader.generator)
        if self._seed is not None:
            key = stream_key(self._seed, "workers", self._setting.trained.epoch)
            return seeded_random(key, generators)
        return kept_random(generators, cuda=False) if again else nullcontext()

    def _draw(self) -> Iterator[tuple[tuple[Any, ...], Any]]:
        """First a cue for each worker; after that the loader only counts."""
        batched, cues = self._setting.place.batched, self._cues
        for number in count():
            cue = cues[number] if number < len(cues) else None
            if cue is not None:
                self._dataset.give(cue)
            yield (), [cue] if batched else cue

    def _unpacked(self, shipment: Shipment) -> Taken | None:
        if shipment.drew:
            self._setting.inexact(
                "its workers draw random numbers, and their generators die with them; use "
                "epoch_reseed or fixed_order, num_workers=0, or draw nothing in the dataset"
            )
        settle = partial(self._settle, shipment)
        if not shipment.count:
            self._setting.trained.hand_out((), settle)
            return None
        first, self._given = self._given, self._given + shipment.count
        return Taken(shipment.batch, range(first, self._given), settle)

    def _settle(self, shipment: Shipment) -> None:
        self._places[shipment.worker] = shipment.place
        if shipment.count:
            self._turn = (shipment.worker + 1) % self._workers

    def state(self) -> dict[str, Any]:
        """The turn, and each worker's place; the dataset's own states are as large as they are."""
        places = [
            {"position": each.position, "state": each.state, "ended": each.ended}
            for each in self._places
        ]
        return {"turn": self._turn, "places": places}

    def load(self, state: Mapping[str, Any]) -> None:
        """Put back what `state` gave; another number of workers is refused."""
        places = [Place(**each) for each in state["places"]]
        if len(places) != self._workers:
            raise FormatError(
                f"the state holds the places of {len(places)} workers in an iterable dataset, the "
                f"loader has {self._workers}; resume with num_workers={len(places)}"
            )
        self._places, self._turn, self._loaded = places, int(state["turn"]), True

    def use_sampler(self, sampler: Any) -> None:
        """A stream has none."""
        raise ConfigError(f"an iterable dataset takes no sampler, got {type(sampler).__name__}")

    def leave(self) -> None:
        """Workers that live on would send shipments; new ones are made instead."""
        self._setting.loader._iterator = None

    def random_state(self) -> RandomState | None:
        """Nothing: what a dataset draws from is in its own state."""
        return None

    def load_random_state(self, state: RandomState | None) -> None:
        """Nothing to put back."""

"""Policies `epoch_reseed` and `fixed_order` on a map-style dataset."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any

from midstep.core.errors import ConfigError
from midstep.core.streams import stream_key
from midstep.data.courses import DrawnIds, Setting, Source, Taken
from midstep.data.draws import SeededDraws, draws_alike
from midstep.data.fetching import DatasetStandIn, SeededFetch, Ticket
from midstep.data.in_place import SamplerStandIn
from midstep.data.randomness import RandomState, generators_of, seeded_random
from midstep.data.trained import ids_of, nothing

__all__ = ["SeededCourse"]


class SeededCourse:
    """The user's sampler drawn under the run's seed, and every sample read under its own.

    Nothing is kept between two passes: order and augmentation are functions of the place.
    """

    def __init__(self, setting: Setting) -> None:
        self._setting, loader = setting, setting.loader
        if setting.config.seed is None:
            raise ConfigError("a seeded order needs a seed")
        self._seed = setting.config.seed
        self._dataset = loader.dataset
        self._sampler = getattr(loader, setting.place.sampler_name)
        self._stand_in = SamplerStandIn(self._sampler, self._draw)
        self._check()

    def _check(self) -> None:
        batched, outside = self._setting.place.batched, (self._dataset,)
        if not draws_alike(self._sampler, self._seed, batched=batched, outside=outside):
            name = type(self._sampler).__name__
            self._setting.inexact(
                f"the sampler {name} gives another order when it is drawn again under the same "
                "seed, so it keeps state of its own; let it begin anew in __iter__"
            )

    def stand_ins(self) -> Mapping[str, Any]:
        """Sampler, dataset and collate function."""
        loader = self._setting.loader
        loader._iterator = None  # workers that live already have the bare dataset
        return {
            self._setting.place.sampler_name: self._stand_in,
            "dataset": DatasetStandIn(self._dataset),
            "collate_fn": SeededFetch(loader.collate_fn, self._seed),
        }

    def begin_epoch(self) -> None:
        """Nothing of the former epoch is kept."""

    def open(self, *, again: bool) -> Source:
        """A pass; `again` makes no difference, the place says it all."""
        del again
        ids = DrawnIds(self._stand_in)
        with self._guard():
            inner = self._setting.place.begin()
            ids.bind()
        # Some loaders draw the base seed of their workers only with the first batch.
        return Source(inner, lambda batch: Taken(batch, ids.next(), nothing), self._guard())

    def _guard(self) -> AbstractContextManager[None]:
        """The loader draws a base seed for its workers: not from the generators of the training."""
        generators = generators_of(self._setting.loader.generator)
        key = stream_key(self._seed, "workers", self._setting.trained.epoch)
        return seeded_random(key, generators)

    def _draw(self) -> Iterator[tuple[tuple[Any, ...], Ticket]]:
        setting, batched = self._setting, self._setting.place.batched
        epoch = setting.trained.epoch
        order = setting.config.order_epoch(epoch)
        draws = SeededDraws(self._sampler, self._seed, order, (self._dataset,))
        if not draws.jump(setting.trained.cursor):
            setting.trained.skip(draws, batched=batched)
        for index in draws:
            yield ids_of(index, batched=batched), Ticket(epoch, index, batched)

    def state(self) -> dict[str, Any]:
        """Nothing beyond the place."""
        return {}

    def load(self, state: Mapping[str, Any]) -> None:
        """Nothing to put back."""

    def use_sampler(self, sampler: Any) -> None:
        """Draw from another sampler from the next pass on."""
        self._sampler = sampler
        self._stand_in.use(sampler)
        self._check()

    def leave(self) -> None:
        """Workers that live on were seeded by us; new ones are made instead."""
        self._setting.loader._iterator = None

    def random_state(self) -> RandomState | None:
        """Nothing: no generator's state is needed."""
        return None

    def load_random_state(self, state: RandomState | None) -> None:
        """Nothing to put back."""

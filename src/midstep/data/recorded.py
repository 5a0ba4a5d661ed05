"""Policy `user` on a map-style dataset: the user's own order, made resumable by recording it.

Nothing is seeded, drawn or moved. What is recorded is where the generators stood when the epoch
began. To go on inside it, they are put back there, the pass is begun as it was then, what was
trained on is drawn and dropped, and the generators are set to where the training stands.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import torch

from midstep.core.errors import FormatError
from midstep.data.courses import DrawnIds, Setting, Source, Taken
from midstep.data.fetching import DatasetStandIn, Ticket, WatchedFetch
from midstep.data.in_place import SamplerStandIn
from midstep.data.randomness import RandomState, generators_of, kept_random
from midstep.data.trained import ids_of, nothing

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["RecordedCourse"]

_WATCHED_DRAWS = 64
"""Draws of the first pass around which the generators are compared."""


class RecordedCourse:
    """The loader as it is, with a note of what it draws and of where each epoch began."""

    def __init__(self, setting: Setting) -> None:
        self._setting, loader = setting, setting.loader
        self._sampler = self._users_sampler = getattr(loader, setting.place.sampler_name)
        self._stand_in = SamplerStandIn(self._sampler, self._draw)
        self._generators = generators_of(loader.generator, self._sampler, outside=(loader.dataset,))
        self._drew = _shared_flag(loader)
        # Workers that live already know nothing of tickets.
        self._tickets = bool(loader.num_workers) and loader._iterator is None
        self._watched = 0
        self._start: RandomState | None = None
        self._start_epoch: int | None = None
        self._made_workers = True
        self._workers_lived: bool | None = None  # where a loaded state had not begun its epoch
        self._silent = False
        self._replay: _Replay | None = None
        if loader._iterator is not None:
            setting.inexact("its workers live already, so nobody can say what they have drawn")

    def stand_ins(self) -> Mapping[str, Any]:
        """The sampler; with workers also dataset and collate function, to see whether they draw."""
        loader, place = self._setting.loader, self._setting.place
        if loader._iterator is not None:
            loader._iterator._index_sampler = self._stand_in
        found: dict[str, Any] = {place.sampler_name: self._stand_in}
        if self._tickets:
            found["dataset"] = DatasetStandIn(loader.dataset)
            found["collate_fn"] = WatchedFetch(loader.collate_fn, self._drew)
        return found

    def use_sampler(self, sampler: Any) -> None:
        """Draw from another sampler from the next pass on."""
        loader = self._setting.loader
        self._sampler = sampler
        self._stand_in.use(sampler)
        self._generators = generators_of(loader.generator, sampler, outside=(loader.dataset,))

    def leave(self) -> None:
        """Workers that live on get their ids from the user's sampler again."""
        loader = self._setting.loader
        if loader._iterator is not None:
            loader._iterator._index_sampler = self._users_sampler

    def begin_epoch(self) -> None:
        """Where this one begins is not known yet."""
        self._start = None

    def open(self, *, again: bool) -> Source:
        """A pass as the loader begins it, or the same pass once more."""
        ids = DrawnIds(self._stand_in)
        inner = self._begin_again(ids) if again else self._begin_first(ids)
        return Source(inner, lambda batch: self._unpacked(batch, ids))

    def _begin_first(self, ids: DrawnIds) -> Iterator[Any]:
        """As the loader begins it; at a loaded place with workers as they were there."""
        lived, self._workers_lived = self._workers_lived, None
        if lived:
            self._make_workers()
        self._start = RandomState.take(self._generators, cuda=False)
        self._start_epoch = self._setting.trained.epoch
        alive = self._setting.loader._iterator is not None
        self._made_workers = not (alive if lived is None else lived)
        self._replay = None
        if self._made_workers and alive:
            self._imitate_making()
        inner = self._setting.place.begin()
        ids.bind()
        return inner

    def _unpacked(self, batch: Any, ids: DrawnIds) -> Taken:
        if self._drew is not None and self._drew.value:
            self._setting.inexact(
                "its workers draw random numbers, and their generators die with them; use "
                "epoch_reseed or fixed_order, num_workers=0, or draw nothing in the dataset"
            )
        return Taken(batch, ids.next(), nothing)

    # -- the same pass once more ------------------------------------------------------------------

    def _begin_again(self, ids: DrawnIds) -> Iterator[Any]:
        if self._start is None:
            raise FormatError(
                "this pass had begun, but where its generators stood is unknown; give "
                "load_random_state what random_state gave with the saved state"
            )
        self._replay = _Replay(self._start, self._generators)
        self._match_workers()
        self._replay.enter()
        if self._made_workers and self._setting.loader._iterator is not None:
            self._imitate_making()
        inner = self._setting.place.begin()
        if ids.bind():
            self._replay.skip(self._setting)  # with workers the first draw has done it
        else:
            self._replay.late = True
        self._replay.leave()
        return inner

    def _match_workers(self) -> None:
        """If the pass began with living workers, make them first: that draws a base seed."""
        if not self._made_workers:
            self._make_workers()

    def _make_workers(self) -> None:
        place = self._setting.place
        if place.keeps_workers and place.loader._iterator is None:
            with kept_random(self._generators, cuda=False):
                self._silent = True
                place.begin()
                self._silent = False

    def _imitate_making(self) -> None:
        """If the pass began by making workers that live now, draw what making them drew."""
        iter(self._sampler)
        torch.empty((), dtype=torch.int64).random_(generator=self._setting.loader.generator)

    # -- draws ------------------------------------------------------------------------------------

    def _draw(self) -> Iterator[tuple[Sequence[Any], Any]]:
        if self._silent:
            return iter(())
        replay = self._replay
        if replay is not None and replay.late and not self._setting.trained.cursor:
            replay = None  # nothing had been drawn yet
        if replay is not None:
            replay.enter()
        source = iter(self._sampler)
        if replay is not None:
            replay.source = source
        return self._draws(source, replay)

    def _draws(
        self, source: Iterator[Any], replay: _Replay | None
    ) -> Iterator[tuple[Sequence[Any], Any]]:
        setting, batched = self._setting, self._setting.place.batched
        if replay is not None:
            replay.skip(setting)
            if replay.late:
                replay.leave()
        epoch = setting.trained.epoch
        before: RandomState | None = None
        for index in source:
            if self._watched < _WATCHED_DRAWS:
                self._watch(before)
            ids = ids_of(index, batched=batched)
            yield ids, Ticket(epoch, index, batched) if self._tickets else index
            if self._watched < _WATCHED_DRAWS:
                before = RandomState.take(cuda=False)

    def _watch(self, before: RandomState | None) -> None:
        """The first draw of a pass may move the generators; if others do, a replay cannot."""
        self._watched += 1
        if before is not None and not before.same(RandomState.take(cuda=False)):
            self._setting.inexact(
                f"the sampler {type(self._sampler).__name__} draws from the global generators "
                "between batches, in turn with the training; let it draw all at once, or from a "
                "generator of its own"
            )

    # -- saved ------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Whether the epoch began by making its workers, and whether there are any: both draw."""
        return {
            "made_workers": self._made_workers,
            "workers_live": getattr(self._setting.loader, "_iterator", None) is not None,
        }

    def load(self, state: Mapping[str, Any]) -> None:
        """Put back what `state` gave."""
        self._made_workers = bool(state["made_workers"])
        self._workers_lived = None if state["begun"] else state.get("workers_live")
        if self._start_epoch not in {None, state["epoch"]}:
            self._start = None  # that of another epoch

    def random_state(self) -> RandomState | None:
        """Where every generator stood when the epoch began."""
        return self._start

    def load_random_state(self, state: RandomState | None) -> None:
        """Put back what `random_state` gave."""
        self._start = state
        self._start_epoch = None


class _Replay:
    """The generators of an epoch's beginning, in place until what was trained on is drawn again."""

    def __init__(self, start: RandomState, generators: Sequence[Any]) -> None:
        self._start, self._generators = start, generators
        self._outer: RandomState | None = None
        self._skipped = False
        self.late = False  # a loader that asks its sampler only with the first batch
        self.source: Iterator[Any] = iter(())

    def enter(self) -> None:
        """Go back to the beginning, once."""
        if self._outer is None and not self._skipped:
            self._outer = RandomState.take(cuda=False)
            self._start.restore(self._generators)

    def skip(self, setting: Setting) -> None:
        """Draw and drop what was trained on, once."""
        if not self._skipped:
            self._skipped = True
            setting.trained.skip(self.source, batched=setting.place.batched)

    def leave(self) -> None:
        """Go back to where the training stands.

        The sampler's own generators stay where the replay has brought them.
        """
        if self._outer is not None:
            self._outer.restore()
            self._outer = None


def _shared_flag(loader: Any) -> Any:
    """A byte that workers can set; None without workers."""
    if not loader.num_workers:
        return None
    context = loader.multiprocessing_context or torch.multiprocessing.get_context()
    return context.RawValue("b", 0)

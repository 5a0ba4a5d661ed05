"""Policy `user` on a map-style dataset: the user's own order, made resumable by recording it.

Nothing is seeded, drawn or moved. `UserOrder` records the state of the generators at the start of
the epoch. To resume inside the epoch it restores that state, begins the pass as it began then,
draws and drops the indices of the trained samples, and sets the generators to the state of the
training.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from midstep.core.errors import FormatError
from midstep.data.order.epoch_cursor import do_nothing, flat_ids
from midstep.data.order.loader_patch import SamplerProxy
from midstep.data.order.order_strategy import (
    WORKERS_DRAW,
    BatchIds,
    BatchSource,
    FetchedBatch,
    LoaderContext,
    OrderStrategy,
)
from midstep.data.order.sample_fetch import DatasetProxy, FetchRequest, WatchedFetch
from midstep.data.order.sampler_attributes import attributes_of_samplers
from midstep.data.random_state import RandomState, find_generators, preserve_rng

_COMPARED_DRAWS = 64
"""Draws around which the generators are compared, to detect a sampler that draws between batches.
After so many the comparison stops, because it costs time at every batch."""


class UserOrder(OrderStrategy):
    """The loader as it is, with a record of its draws and of where each epoch began."""

    def __init__(self, context: LoaderContext) -> None:
        super().__init__(context)
        loader = context.loader
        self._sampler = self._users_sampler = getattr(loader, context.patch.sampler_name)
        self._proxy = SamplerProxy(self._sampler, self._draw)
        self._generators = find_generators(
            loader.generator, self._sampler, outside=(loader.dataset,)
        )
        self._drew_flag = _shared_flag(loader)
        # Workers that were started before hold the bare dataset and cannot read a FetchRequest.
        self._sends_requests = bool(loader.num_workers) and loader._iterator is None
        self._attributes = attributes_of_samplers(self._sampler)
        self._compared_draws = 0
        self._epoch_start: RandomState | None = None
        self._start_epoch: int | None = None  # the epoch that `_epoch_start` belongs to
        self._made_workers = True
        # Set by `load` if the saved epoch had not begun: whether workers were alive at that time.
        self._had_workers: bool | None = None
        self._draws_nothing = False
        self._replay: _Replay | None = None
        if loader._iterator is not None:
            context.refuse_or_report(
                "its workers were started before, so it is unknown what they have drawn"
            )

    def replacements(self) -> Mapping[str, Any]:
        """The sampler; with workers also dataset and collate function, to see if workers draw."""
        loader, patch = self._context.loader, self._context.patch
        if loader._iterator is not None:
            loader._iterator._index_sampler = self._proxy
        parts: dict[str, Any] = {patch.sampler_name: self._proxy}
        if self._sends_requests:
            parts["dataset"] = DatasetProxy(loader.dataset)
            parts["collate_fn"] = WatchedFetch(loader.collate_fn, self._drew_flag)
        return parts

    def use_sampler(self, sampler: Any) -> None:
        """Draw from another sampler, beginning with the next pass."""
        loader = self._context.loader
        self._sampler = sampler
        self._proxy.use_sampler(sampler)
        self._attributes = attributes_of_samplers(sampler)
        self._generators = find_generators(loader.generator, sampler, outside=(loader.dataset,))

    def release(self) -> None:
        """Let persistent workers get their ids from the user's sampler again."""
        loader = self._context.loader
        if loader._iterator is not None:
            loader._iterator._index_sampler = self._users_sampler

    def begin_epoch(self) -> None:
        """Forget where the epoch before began."""
        self._epoch_start = None

    def open_pass(self, *, resume: bool) -> BatchSource:
        """Begin a pass as the loader does, or replay the pass that had begun."""
        ids = BatchIds(self._proxy)
        inner = self._replay_pass(ids) if resume else self._begin_pass(ids)
        return BatchSource(inner, lambda batch: self._unpack(batch, ids))

    def _begin_pass(self, ids: BatchIds) -> Iterator[Any]:
        """Begin as the loader does; after a load, with workers alive or not as at that time."""
        had_workers, self._had_workers = self._had_workers, None
        if had_workers:
            self._make_workers()
        # Two states are saved in all: this one, from which indices are drawn again, and the one
        # at the boundary, from which the training continues.
        self._epoch_start = RandomState.take(self._generators, cuda=False)
        self._start_epoch = self._context.cursor.epoch
        alive = self._context.loader._iterator is not None
        self._made_workers = not (alive if had_workers is None else had_workers)
        self._replay = None
        if self._made_workers and alive:
            self._draw_worker_seed()
        inner = self._context.patch.begin_pass()
        ids.bind()
        return inner

    def _unpack(self, batch: Any, ids: BatchIds) -> FetchedBatch:
        if self._drew_flag is not None and self._drew_flag.value:
            self._context.refuse_or_report(WORKERS_DRAW)
        return FetchedBatch(batch, ids.next(), do_nothing)

    # -- replay of a pass -------------------------------------------------------------------------

    def _replay_pass(self, ids: BatchIds) -> Iterator[Any]:
        if self._epoch_start is None:
            raise FormatError(
                "this pass had begun, but the generators at its start are unknown; call "
                "load_random_state with what random_state returned for the saved state"
            )
        self._replay = _Replay(self._epoch_start, self._generators)
        if not self._made_workers:
            # The pass began with workers alive. Starting them draws a base seed, so do it now,
            # before the generators go back to the start of the epoch.
            self._make_workers()
        self._replay.enter()
        if self._made_workers and self._context.loader._iterator is not None:
            self._draw_worker_seed()
        inner = self._context.patch.begin_pass()
        if ids.bind():
            self._replay.skip(self._context)  # with workers, their first draw has done it
        else:
            self._replay.starts_late = True
        self._replay.leave()
        return inner

    def _make_workers(self) -> None:
        """Start persistent workers without moving a generator and without drawing an index."""
        patch = self._context.patch
        if patch.has_persistent_workers and patch.loader._iterator is None:
            with preserve_rng(self._generators, cuda=False):
                self._draws_nothing = True
                patch.begin_pass()
                self._draws_nothing = False

    def _draw_worker_seed(self) -> None:
        """Draw what starting workers drew: workers live now, but did not when the pass began."""
        iter(self._sampler)
        torch.empty((), dtype=torch.int64).random_(generator=self._context.loader.generator)

    # -- draws ------------------------------------------------------------------------------------

    def _draw(self) -> Iterator[tuple[Sequence[Any], Any]]:
        if self._draws_nothing:
            return iter(())
        replay = self._replay
        if replay is not None and replay.starts_late and not self._context.cursor.cursor:
            replay = None  # nothing had been drawn yet
        if replay is not None:
            replay.enter()
        indices = iter(self._sampler)
        if replay is not None:
            replay.indices = indices
        return self._indices(indices, replay)

    def _indices(
        self, indices: Iterator[Any], replay: _Replay | None
    ) -> Iterator[tuple[Sequence[Any], Any]]:
        context, batched = self._context, self._context.patch.batched
        if replay is not None:
            replay.skip(context)
            if replay.starts_late:
                replay.leave()
        epoch = context.cursor.epoch
        before: RandomState | None = None
        for index in indices:
            if self._compared_draws < _COMPARED_DRAWS:
                self._check_draw(before)
            ids = flat_ids(index, batched=batched)
            yield ids, FetchRequest(epoch, index, batched) if self._sends_requests else index
            if self._compared_draws < _COMPARED_DRAWS:
                before = RandomState.take(cuda=False)

    def _check_draw(self, before: RandomState | None) -> None:
        """Refuse or report a sampler that moves the generators after its first draw.

        Its draws alternate with those of the training, so they cannot be replayed alone.
        """
        self._compared_draws += 1
        if before is not None and not before.same(RandomState.take(cuda=False)):
            self._context.refuse_or_report(
                f"the sampler {type(self._sampler).__name__} draws from the global generators "
                "between batches, in turn with the training; let it draw all at once, or from a "
                "generator of its own"
            )

    # -- state ------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Whether the epoch began by starting workers, and whether workers live: both draw."""
        live = getattr(self._context.loader, "_iterator", None) is not None
        # Between a load and its first pass the workers of the saved time count, not those of now.
        return {
            "made_workers": self._made_workers,
            "workers_live": live if self._had_workers is None else self._had_workers,
            "samplers": [each.state() for each in self._attributes],
        }

    def load(self, state: Mapping[str, Any]) -> None:
        """Restore what `state` returned."""
        self._made_workers = bool(state["made_workers"])
        self._had_workers = None if state["begun"] else state.get("workers_live")
        if not state["begun"]:
            for each, saved in zip(self._attributes, state.get("samplers") or [], strict=False):
                for words in each.load(saved):
                    self._context.report(words)
        if self._start_epoch not in {None, state["epoch"]}:
            self._epoch_start = None  # it belongs to another epoch

    def random_state(self) -> RandomState | None:
        """The state of every generator at the start of the epoch."""
        return self._epoch_start

    def load_random_state(self, state: RandomState | None) -> None:
        """Restore what `random_state` returned."""
        self._epoch_start = state
        self._start_epoch = None


class _Replay:
    """Holds the generators at the start of an epoch until its trained samples are drawn again."""

    def __init__(self, start: RandomState, generators: Sequence[Any]) -> None:
        self._start, self._generators = start, generators
        self._outer: RandomState | None = None
        self._has_skipped = False
        self.starts_late = False  # the loader calls its sampler only with the first batch
        self.indices: Iterator[Any] = iter(())

    def enter(self) -> None:
        """Set the generators to the start of the epoch, once."""
        if self._outer is None and not self._has_skipped:
            self._outer = RandomState.take(cuda=False)
            self._start.restore(self._generators)

    def skip(self, context: LoaderContext) -> None:
        """Draw and drop the indices of the trained samples, once."""
        if not self._has_skipped:
            self._has_skipped = True
            context.cursor.skip(self.indices, batched=context.patch.batched)

    def leave(self) -> None:
        """Set the global generators to the state of the training.

        The sampler's own generators stay where the replay has left them.
        """
        if self._outer is not None:
            self._outer.restore()
            self._outer = None


def _shared_flag(loader: Any) -> Any:
    """A byte in shared memory that workers can set; None without workers."""
    if not loader.num_workers:
        return None
    # RawValue has no lock: workers only ever set it to 1.
    context = loader.multiprocessing_context or torch.multiprocessing.get_context()
    return context.RawValue("b", 0)

"""Every policy on an iterable dataset: what is saved is the dataset's own state, per worker.

This is the part in the main process; `stream_worker` is the part in the workers.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from itertools import count
from typing import Any

from midstep.core.errors import ConfigError, FormatError
from midstep.core.protocols import Stateful
from midstep.data.order.loader_patch import SamplerProxy
from midstep.data.order.order_strategy import (
    WORKERS_DRAW,
    BatchSource,
    FetchedBatch,
    LoaderContext,
    OrderStrategy,
)
from midstep.data.order.stream_worker import (
    StreamCollate,
    StreamPosition,
    StreamProxy,
    StreamStart,
    WorkerBatch,
)
from midstep.data.random_state import find_generators, preserve_rng


class StreamOrder(OrderStrategy):
    """One position per worker. It moves when a batch of that worker was trained on."""

    def __init__(self, context: LoaderContext) -> None:
        super().__init__(context)
        loader = context.loader
        self._seed = context.config.sample_seed
        self._in_workers, self._workers = loader.num_workers > 0, max(1, loader.num_workers)
        self._is_stateful = isinstance(loader.dataset, Stateful)
        self._initial_state = (
            copy.deepcopy(loader.dataset.state_dict()) if self._is_stateful else None
        )
        self._positions = [StreamPosition(0, self._initial_state)] * self._workers
        self._turn = 0  # the worker whose batch comes next
        self._samples_given = 0
        self._has_loaded = False
        self._dataset = StreamProxy(
            loader.dataset, loader.batch_size, drop_last=loader.drop_last, seed=self._seed
        )
        self._starts: list[StreamStart] = []
        if not self._is_stateful:
            name = type(loader.dataset).__name__
            context.refuse_or_report(
                f"the iterable dataset {name} has no state_dict and load_state_dict, so it can "
                "only be read again from its start"
            )

    def replacements(self) -> Mapping[str, Any]:
        """Sampler, dataset and collate function."""
        loader, name = self._context.loader, self._context.patch.sampler_name
        loader._iterator = None  # workers that were started before hold the bare dataset
        return {
            name: SamplerProxy(getattr(loader, name), self._draw),
            "dataset": self._dataset,
            "collate_fn": StreamCollate(loader.collate_fn, self._seed),
        }

    def begin_epoch(self) -> None:
        """Set all positions to 0.

        A dataset in the main process or in a persistent worker keeps its state. New workers get
        fresh copies of the dataset, in the state it had at the beginning.
        """
        lives_on = not self._in_workers or self._context.patch.has_persistent_workers
        states = [each.state if lives_on else self._initial_state for each in self._positions]
        self._positions = [StreamPosition(0, state) for state in states]
        self._turn, self._has_loaded = 0, False

    def open_pass(self, *, resume: bool) -> BatchSource:
        """Begin a pass with each worker at its position; a first pass loads no state."""
        cursor = self._context.cursor
        loads_states, self._has_loaded = resume or self._has_loaded, False
        if cursor.cursor != sum(each.position for each in self._positions):
            raise FormatError(
                f"sample {cursor.cursor} of a stream cannot be reached by its number; load a "
                "state that was saved there"
            )
        self._samples_given = cursor.cursor
        with self._guard_worker_seed(resume=resume):
            if resume and cursor.cursor and not self._is_stateful:
                return self._reread()
            fresh = [StreamPosition()] * self._workers
            return self._begin_pass(self._positions if loads_states else fresh, self._turn)

    def _begin_pass(self, positions: list[StreamPosition], turn: int) -> BatchSource:
        epoch = self._context.cursor.epoch
        self._starts = [
            StreamStart(epoch, position, worker < turn) for worker, position in enumerate(positions)
        ]
        inner: Any = self._context.patch.begin_pass()
        # torch warns when a stream gives more batches than its `__len__` says. Ours also sends
        # positions without a batch, so the comparison is switched off.
        inner._IterableDataset_len_called = None
        return BatchSource(inner, self._unpack, self._guard_worker_seed(resume=False))

    def _reread(self) -> BatchSource:
        """Read a stream without states from its start, and drop what was trained on."""
        left = self._context.cursor.cursor
        source = self._begin_pass([StreamPosition()] * self._workers, 0)
        self._samples_given = 0
        while left > 0:
            left -= len(next(source).ids)
        return source

    def _guard_worker_seed(self, *, resume: bool) -> AbstractContextManager[None]:
        """Guard the block in which the loader draws a base seed for its workers.

        Under a seeded policy, and when a pass is resumed, that draw must not move the generators of
        the training.
        """
        if self._seed is not None:
            return self._worker_seed(self._seed)
        generators = find_generators(self._context.loader.generator)
        return preserve_rng(generators, cuda=False) if resume else nullcontext()

    def _draw(self) -> Iterator[tuple[tuple[Any, ...], Any]]:
        """First a `StreamStart` for each worker; after that the loader only counts."""
        batched, starts = self._context.patch.batched, self._starts
        for number in count():
            start = starts[number] if number < len(starts) else None
            if start is not None:
                self._dataset.set_stream_start(start)
            yield (), [start] if batched else start

    def _unpack(self, worker_batch: WorkerBatch) -> FetchedBatch | None:
        if worker_batch.has_drawn:
            self._context.refuse_or_report(WORKERS_DRAW)
        on_trained = partial(self._on_trained, worker_batch)
        if not worker_batch.count:
            # Only a position. The loop never sees it, but the next commit must apply it.
            self._context.cursor.record_fetched((), on_trained)
            return None
        first, self._samples_given = self._samples_given, self._samples_given + worker_batch.count
        return FetchedBatch(worker_batch.batch, range(first, self._samples_given), on_trained)

    def _on_trained(self, worker_batch: WorkerBatch) -> None:
        self._positions[worker_batch.worker] = worker_batch.end_position
        if worker_batch.count:
            self._turn = (worker_batch.worker + 1) % self._workers

    def state(self) -> dict[str, Any]:
        """The next worker, and each worker's position with the state of its dataset."""
        positions = [
            {"position": each.position, "state": each.state, "ended": each.ended}
            for each in self._positions
        ]
        return {"turn": self._turn, "places": positions}

    def load(self, state: Mapping[str, Any]) -> None:
        """Restore what `state` returned.

        Raises:
            FormatError: if the loader has another number of workers.
        """
        positions = [StreamPosition(**each) for each in state["places"]]
        # A dataset divides its samples by worker, so a position belongs to one worker count.
        if len(positions) != self._workers:
            raise FormatError(
                f"the state holds the positions of {len(positions)} workers in an iterable "
                f"dataset, the loader has {self._workers}; resume with "
                f"num_workers={len(positions)}"
            )
        self._positions, self._turn, self._has_loaded = positions, int(state["turn"]), True

    def use_sampler(self, sampler: Any) -> None:
        """Refuse it: a stream has no sampler."""
        raise ConfigError(f"an iterable dataset takes no sampler, got {type(sampler).__name__}")

"""Policies `epoch_reseed` and `fixed_order` on a map-style dataset."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from midstep.core.errors import ConfigError
from midstep.data.order.epoch_cursor import do_nothing, flat_ids
from midstep.data.order.loader_patch import SamplerProxy
from midstep.data.order.order_strategy import (
    BatchIds,
    BatchSource,
    FetchedBatch,
    LoaderContext,
    OrderStrategy,
)
from midstep.data.order.sample_fetch import DatasetProxy, FetchRequest, SeededFetch
from midstep.data.order.samplers import SeededIndices, is_repeatable


class SeededOrder(OrderStrategy):
    """Draws from the user's sampler under the run's seed, and reads each sample under its own.

    It keeps nothing between two passes: order and augmentation are functions of the position.
    """

    def __init__(self, context: LoaderContext) -> None:
        super().__init__(context)
        if context.config.seed is None:
            raise ConfigError("a seeded order needs a seed; pass seed=…")
        self._seed = context.config.seed
        self._dataset = context.loader.dataset
        self._sampler = getattr(context.loader, context.patch.sampler_name)
        self._proxy = SamplerProxy(self._sampler, self._draw)
        self._check_sampler()

    def _check_sampler(self) -> None:
        batched, outside = self._context.patch.batched, (self._dataset,)
        if not is_repeatable(self._sampler, self._seed, batched=batched, outside=outside):
            name = type(self._sampler).__name__
            self._context.refuse_or_report(
                f"the sampler {name} gives another order when it is drawn again under the same "
                "seed, so it keeps state of its own; let it begin again in __iter__"
            )

    def replacements(self) -> Mapping[str, Any]:
        """Sampler, dataset and collate function."""
        loader = self._context.loader
        loader._iterator = None  # workers that were started before hold the bare dataset
        return {
            self._context.patch.sampler_name: self._proxy,
            "dataset": DatasetProxy(self._dataset),
            "collate_fn": SeededFetch(loader.collate_fn, self._seed),
        }

    def open_pass(self, *, resume: bool) -> BatchSource:
        """Begin a pass. `resume` makes no difference, because the cursor says everything."""
        del resume
        ids = BatchIds(self._proxy)
        # The loader draws a base seed for its workers here. Persistent workers draw it once, others
        # in every epoch; an unguarded draw would shift the dropout of the training.
        with self._worker_seed(self._seed):
            inner = self._context.patch.begin_pass()
            ids.bind()
        # Some loaders draw the base seed of their workers only with the first batch.
        return BatchSource(
            inner,
            lambda batch: FetchedBatch(batch, ids.next(), do_nothing),
            self._worker_seed(self._seed),
        )

    def _draw(self) -> Iterator[tuple[tuple[Any, ...], FetchRequest]]:
        context, batched = self._context, self._context.patch.batched
        epoch = context.cursor.epoch
        order_epoch = context.config.order_epoch(epoch)
        indices = SeededIndices(self._sampler, self._seed, order_epoch, (self._dataset,))
        if not indices.jump(context.cursor.cursor):
            context.cursor.skip(indices, batched=batched)
        for index in indices:
            # Samples are seeded by the true epoch: under `fixed_order` only the order repeats.
            yield flat_ids(index, batched=batched), FetchRequest(epoch, index, batched)

    def use_sampler(self, sampler: Any) -> None:
        """Draw from another sampler, beginning with the next pass."""
        self._sampler = sampler
        self._proxy.use_sampler(sampler)
        self._check_sampler()

"""`OrderedLoader`: a user's loader under an order policy, changed in place, resumable at every
step.

docs/reference/exact-resume.md says what is guaranteed for which sampler, worker count and policy.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from torch.utils.data import IterableDataset, IterDataPipe, MapDataPipe

from midstep.core.errors import ConfigError, FormatError
from midstep.data.order.loader_patch import LoaderPatch
from midstep.data.order.order_strategy import (
    BatchSource,
    FetchedBatch,
    LoaderContext,
    OrderConfig,
    OrderStrategy,
    warn_user,
)
from midstep.data.order.seeded_order import SeededOrder
from midstep.data.order.stream_order import StreamOrder
from midstep.data.order.user_order import UserOrder
from midstep.data.random_state import RandomState, find_generators

_FORMAT = 1


class BatchListener(Protocol):
    """Learns what the loop does with the loader. All calls come from the training thread."""

    def before_batch(self) -> None:
        """The loop requests its next batch; the step before is over."""

    def after_batch(self, batch: Any, ids: Sequence[Any] | None) -> None:
        """The loop receives a batch."""

    def pass_ended(self) -> None:
        """The loader has no more batches."""


class OrderedLoader:
    """A loader whose order follows a policy, for as long as a `with` block lasts.

    Iterate the user's own loader as before. Call `commit` after each optimizer step: it moves the
    cursor of trained samples. `state_dict` then takes another process to the same position.

    Args:
        loader: the user's `DataLoader`; its workers, pinning, collate function and generator stay.
        config: the policy, the seed, and what to do where a resume cannot be exact.
        listener: learns of every batch and its ids, in the training thread.
        report: called once for each thing that makes a resume inexact, if that is not refused.

    Raises:
        ConfigError: if a resume of this loader would not be exact under this policy.

    >>> from torch.utils.data import DataLoader
    >>> loader = DataLoader(range(6), batch_size=2, shuffle=True)
    >>> with OrderedLoader(loader, OrderConfig(policy="epoch_reseed", seed=1)) as order:
    ...     batches = [batch.tolist() for batch in loader]
    ...     order.seek(epoch=0, cursor=4)
    ...     [batch.tolist() for batch in loader] == batches[2:]
    True
    """

    def __init__(
        self,
        loader: Any,
        config: OrderConfig,
        *,
        listener: BatchListener | None = None,
        report: Callable[[str], object] = warn_user,
    ) -> None:
        self._patch = LoaderPatch(loader, self._start_pass)
        self._context = LoaderContext(self._patch, config, report)
        self._config, self._length = config, _length(loader)
        _check_dataset(self._context)
        self._strategy = _choose_strategy(self._context)
        self._passes = EpochPasses(self._context, self._strategy, listener)
        self._was_entered = False

    # -- position ---------------------------------------------------------------------------------

    @property
    def epoch(self) -> int:
        """The epoch of the current or next pass."""
        return self._context.cursor.epoch

    @property
    def cursor(self) -> int:
        """Samples of this epoch that were trained on."""
        return self._context.cursor.cursor

    @property
    def checksum(self) -> int | None:
        """Checksum of the ids before the cursor; equal orders have equal checksums."""
        return self._context.cursor.checksum

    @property
    def has_sample_ids(self) -> bool:
        """Whether the ids name samples; those of a stream are only positions."""
        return not isinstance(self._strategy, StreamOrder)

    @property
    def passes(self) -> int:
        """How many passes over the loader have begun."""
        return self._passes.started

    @property
    def problems(self) -> list[str]:
        """Reasons why a resume is not exact, if they were reported and not refused."""
        return list(self._context.problems)

    def refuse_or_report(self, reason: str) -> None:
        """Refuse what makes a resume inexact, or report it once, as the settings say."""
        self._context.refuse_or_report(reason)

    def commit(self, count: int | None = None) -> None:
        """Record that a step is done: all fetched samples, or `count` of them, are trained on."""
        self._context.cursor.commit(count)

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next pass; setting the current epoch again keeps the cursor.

        If it is never called, each pass that was trained on, or came to its end, is an epoch.
        """
        self._passes.set_epoch(epoch)

    def seek(self, epoch: int, cursor: int = 0) -> None:
        """Go to sample `cursor` of `epoch`. A running pass continues there at once."""
        resume = self._passes.has_begun
        if not self._config.seeded and epoch != self.epoch:
            raise ConfigError(
                f"policy 'user' knows only where epoch {self.epoch} began; to go to epoch {epoch} "
                "load a state that was saved in it"
            )
        if cursor and not (self._config.seeded or resume):
            raise ConfigError(f"epoch {epoch} has not begun, so policy 'user' has no order for it")
        self._context.cursor.seek(epoch, cursor)
        self._passes.restart_pass(resume=resume)

    def use_sampler(self, sampler: Any) -> None:
        """Draw from another sampler of the same kind, from the next batch on. Workers stay alive.

        The epoch starts again with it. The loader gets its own sampler back at the end.
        """
        self._strategy.use_sampler(sampler)
        self._passes.begin_epoch(self.epoch)
        self._passes.restart_pass(resume=False)

    # -- state ------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """The position as plain data: under 1 KB, plus what an iterable dataset saves itself."""
        cursor = self._context.cursor
        return {
            "format": _FORMAT,
            "policy": self._config.policy,
            "seed": self._config.sample_seed,
            "length": self._length,
            "epoch": cursor.epoch,
            "cursor": cursor.cursor,
            "checksum": cursor.checksum,
            "begun": self._passes.has_begun,
            **self._strategy.state(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go to where `state` was saved. A running pass continues there at once.

        Under `user`, call `load_random_state` first, and set the generators to their states at the
        saved boundary.

        Raises:
            FormatError: if the state has another policy, seed or dataset length.
        """
        # The strategy first: opening a pass below reads what it loads.
        self._check_state(state)
        self._strategy.load(state)
        self._context.cursor.seek(state["epoch"], state["cursor"], state["checksum"])
        self._passes.restart_pass(resume=bool(state["begun"]))

    def random_state(self) -> RandomState | None:
        """The generators at the start of the epoch, to save with the state; None unless `user`."""
        return self._strategy.random_state()

    def load_random_state(self, state: RandomState | None) -> None:
        """Restore what `random_state` returned."""
        self._strategy.load_random_state(state)

    def _check_state(self, state: Mapping[str, Any]) -> None:
        if state.get("format") != _FORMAT:
            raise FormatError(f"order state of format {state.get('format')}, expected {_FORMAT}")
        now = self.state_dict()
        # Another value of any of these gives another order, in which the cursor means nothing.
        for name in ("policy", "seed", "length"):
            if state[name] != now[name]:
                raise FormatError(
                    f"the order was saved with {name} {state[name]!r}, it is now {now[name]!r}; "
                    "resume with the same or start a new run"
                )

    # -- the patched loader -----------------------------------------------------------------------

    def __enter__(self) -> OrderedLoader:
        if self._was_entered:
            raise ConfigError(
                "an OrderedLoader can be entered once; create another for the next `with` block"
            )
        self._was_entered = True
        self._patch.apply(self._strategy.replacements())
        return self

    def __exit__(self, *_: object) -> None:
        self._strategy.release()
        self._patch.remove()

    def __iter__(self) -> Iterator[Any]:
        return iter(self._patch.loader)

    def _start_pass(self) -> LoaderPass:
        return self._passes.start()


class EpochPasses:
    """Which pass runs, whether it is resumed, and which epoch the next pass belongs to.

    `set_epoch` says the epoch. Without it, each pass that was trained on, or came to its end, is an
    epoch.
    """

    def __init__(
        self, context: LoaderContext, strategy: OrderStrategy, listener: BatchListener | None
    ) -> None:
        self._context, self._strategy, self.listener = context, strategy, listener
        # Weak: a pass, and with it its workers, ends when the loop drops its iterator.
        self._running: weakref.ref[LoaderPass] | None = None
        self._has_begun = self._resumes = self._is_exhausted = self._epoch_was_set = False
        self._first_cursor = 0
        self.started = 0
        """How many passes have begun."""

    @property
    def has_begun(self) -> bool:
        """Whether the pass of the current epoch has begun, here or in a process that ended."""
        return self._has_begun or self._resumes

    def start(self) -> LoaderPass:
        """What `iter(loader)` returns while the loader is patched."""
        self.started += 1
        if self._has_begun:
            self._begin_next()
        resume, self._resumes = self._resumes, False
        self._has_begun, self._is_exhausted = True, False
        self._first_cursor = self._context.cursor.cursor
        running = LoaderPass(self, self._strategy.open_pass(resume=resume))
        self._running = weakref.ref(running)
        return running

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next pass; setting the current one again changes nothing."""
        self._epoch_was_set = True
        if epoch != self._context.cursor.epoch:
            self.begin_epoch(epoch)

    def begin_epoch(self, epoch: int) -> None:
        """Go to the first sample of `epoch`."""
        self._context.cursor.seek(epoch)
        self._strategy.begin_epoch()
        self._has_begun = self._resumes = False

    def restart_pass(self, *, resume: bool) -> None:
        """Continue from the cursor just set: a running pass at once, else the next pass."""
        self._first_cursor, self._is_exhausted = self._context.cursor.cursor, False
        running = self._running() if self._running is not None else None
        self._has_begun, self._resumes = running is not None, resume and running is None
        if running is not None:
            # Drop the old source first, so that its workers end before new ones start.
            running.read_from(None)
            running.read_from(self._strategy.open_pass(resume=resume))

    def check_latest(self, running: LoaderPass) -> None:
        """Refuse or report a batch of a pass that is not the latest one.

        Two passes at a time share one cursor, so the position would be unknown.
        """
        if self._running is None or self._running() is not running:
            self._context.refuse_or_report(
                "a pass continues after another one has begun; end the first before the second, or "
                "use a separate loader for the second"
            )

    def record_batch(self, fetched: FetchedBatch) -> None:
        """Record a batch that the loop receives."""
        self._context.cursor.record_fetched(fetched.ids, fetched.on_trained)
        if self.listener is not None:
            self.listener.after_batch(fetched.batch, fetched.ids)

    def end_pass(self) -> None:
        """Record that the running pass is over."""
        self._is_exhausted, self._running = True, None
        if not self._context.cursor.pending:
            # Streams report their end after the last batch; no step follows that would commit it.
            self._context.cursor.commit()
        if self.listener is not None:
            self.listener.pass_ended()

    def _begin_next(self) -> None:
        """Decide the epoch of a pass that follows another in this process."""
        cursor = self._context.cursor
        # A pass that was dropped before anything was trained on does not count as an epoch.
        is_untouched = not self._is_exhausted and cursor.cursor == self._first_cursor
        if is_untouched and (cursor.cursor or not self._epoch_was_set):
            cursor.seek(cursor.epoch, cursor.cursor, cursor.checksum)
            # After a resume, looking at one batch and starting again must not move the position.
            self._resumes = cursor.cursor > 0
        else:
            self.begin_epoch(cursor.epoch + (not self._epoch_was_set))


class LoaderPass:
    """One pass, batch by batch. Its source can be replaced between two batches."""

    def __init__(self, passes: EpochPasses, source: BatchSource) -> None:
        self._passes, self._source = passes, source
        self._is_over = False

    def __iter__(self) -> LoaderPass:
        return self

    def __len__(self) -> int:
        return len(self._source.inner)  # type: ignore[arg-type]

    def __getattr__(self, name: str) -> Any:
        # Code that reads attributes of the loader's own iterator still finds them here.
        return getattr(self._source.inner, name)

    def __next__(self) -> Any:
        if self._is_over:
            raise StopIteration
        passes = self._passes
        passes.check_latest(self)
        listener = passes.listener
        if listener is not None:
            listener.before_batch()  # may pause here, and replace `_source` by a seek
        try:
            fetched = self._source.__next__()
        except StopIteration:
            self._is_over = True
            passes.end_pass()
            raise
        passes.record_batch(fetched)
        return fetched.batch

    def read_from(self, source: BatchSource | None) -> None:
        """Continue with the batches of `source`; None drops the current source."""
        self._source = source or BatchSource(iter(()), lambda _batch: None)


def _choose_strategy(context: LoaderContext) -> OrderStrategy:
    if isinstance(context.loader.dataset, IterableDataset):
        return StreamOrder(context)
    return SeededOrder(context) if context.config.seeded else UserOrder(context)


def _check_dataset(context: LoaderContext) -> None:
    dataset = context.loader.dataset
    if isinstance(dataset, IterDataPipe | MapDataPipe):
        raise ConfigError("a data pipe seeds itself; wrap its data in a Dataset or IterableDataset")
    # A stream saves its generators in its own state. A map-style dataset has no state, so what
    # its generators have drawn would be lost at a resume.
    is_stream = isinstance(dataset, IterableDataset)
    # Those in its containers are found by the search of the user's code, which saves them.
    generators = [] if is_stream else find_generators(dataset, depth=2, in_containers=False)
    if generators:
        context.refuse_or_report(
            f"the dataset {type(dataset).__name__} keeps a {type(generators[0]).__name__} of its "
            "own; let it draw from the global generators, or derive its numbers from the index"
        )


def _length(loader: Any) -> int | None:
    dataset = loader.dataset
    if isinstance(dataset, IterableDataset):
        return None
    try:
        return len(dataset)
    except Exception:  # noqa: BLE001 - the user's own code; not every order needs a length
        return None  # a batch sampler may know its ids without a length of the dataset

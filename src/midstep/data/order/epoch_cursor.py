"""How far an epoch is trained: a cursor in samples that moves when an optimizer step is done.

Batches that were fetched but not yet committed are pending: after a kill they are fetched again. A
running checksum of the trained ids is kept with the cursor, so that a resume which would draw
another order is detected before its first batch.
"""

from __future__ import annotations

import operator
import zlib
from array import array
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from midstep.core.errors import ConfigError, FormatError


def do_nothing() -> None:
    """The `on_trained` callback of a batch that needs none."""


class IntIds(tuple[int, ...]):
    """Ids that are known to be integers, so that later code need not check each of them again."""

    __slots__ = ()


class EpochCursor:
    """The position of a run in its data: an epoch, and how many of its samples were trained on.

    >>> cursor = EpochCursor()
    >>> cursor.record_fetched((4, 2))
    >>> cursor.record_fetched((0,))
    >>> cursor.commit(2)
    >>> cursor.cursor, cursor.pending
    (2, 1)
    """

    def __init__(self) -> None:
        self.epoch = self.cursor = 0
        self.checksum: int | None = 0
        """Checksum of the ids before the cursor; None while it is unknown."""
        self.pending = 0
        """Samples fetched since the last commit."""
        # Of each pending batch: its samples, the checksum after it, and `on_trained`.
        self._fetched: deque[tuple[int, int, Callable[[], object]]] = deque()
        self._last_checksum: int | None = 0  # up to the last fetched batch

    def seek(self, epoch: int, cursor: int = 0, checksum: int | None = None) -> None:
        """Go to sample `cursor` of `epoch`; `skip` checks the ids before it by the checksum."""
        if epoch < 0 or cursor < 0:
            raise ConfigError(f"epoch and cursor count from 0, got epoch {epoch}, cursor {cursor}")
        self.epoch, self.cursor, self.checksum = epoch, cursor, checksum if cursor else 0
        self._fetched.clear()
        self.pending, self._last_checksum = 0, self.checksum

    def record_fetched(
        self, ids: Sequence[Any], on_trained: Callable[[], object] = do_nothing
    ) -> None:
        """Record a batch that the loop received; `on_trained` is called when it is committed."""
        count, self._last_checksum = len(ids), _checksum(ids, self._last_checksum or 0)
        self.pending += count
        self._fetched.append((count, self._last_checksum, on_trained))

    def commit(self, count: int | None = None) -> None:
        """Record a finished step: `count` more samples, or all pending ones, are trained on."""
        left = self.pending if count is None else count
        if not 0 <= left <= self.pending:
            raise ConfigError(f"cannot commit {left} samples; {self.pending} were handed out")
        # `>=` also takes batches of 0 samples: a stream at its end sends its position that way.
        while self._fetched and left >= self._fetched[0][0]:
            batch_count, self.checksum, on_trained = self._fetched.popleft()
            self.cursor += batch_count
            self.pending -= batch_count
            left -= batch_count
            on_trained()
        if left:
            raise ConfigError(
                f"a step ends with a batch; {left} samples of the next batch are left over"
            )

    def skip(self, indices: Iterator[Any], *, batched: bool) -> None:
        """Draw and drop the indices of the trained samples, and check that they are the same.

        No data is read.

        Args:
            indices: what the sampler gives: batches of indices, or single indices.
            batched: whether they are batches.

        Raises:
            FormatError: if the order differs from the one that was trained on.
        """
        position = checksum = 0
        while position < self.cursor:
            index = next(indices, None)
            if index is None:
                raise self._different_order(f"the order ends after {position} samples")
            ids = flat_ids(index, batched=batched)
            position, checksum = position + len(ids), _checksum(ids, checksum)
        if position > self.cursor:
            raise self._different_order("this position is inside a batch")
        if self.checksum is not None and checksum != self.checksum:
            raise self._different_order("the samples before it are not those that were trained on")
        self.checksum = self._last_checksum = checksum

    def _different_order(self, reason: str) -> FormatError:
        return FormatError(
            f"cannot continue at sample {self.cursor} of epoch {self.epoch}: {reason}. Use the "
            "same data, sampler, batch size and seed; a sampler that keeps state of its own or "
            "draws between batches cannot be resumed"
        )


def flat_ids(index: Any, *, batched: bool) -> tuple[Any, ...]:
    """The ids that a sampler drew for one batch, as a flat tuple; integers become plain `int`.

    >>> import torch
    >>> flat_ids(torch.tensor([3, 1]), batched=True), flat_ids("cat", batched=False)
    ((3, 1), ('cat',))
    """
    items = index.tolist() if hasattr(index, "tolist") else index
    # Without batching a tuple is one id, and a list is a batch that the dataset reads by itself.
    if not isinstance(items, list) and (isinstance(items, str) or not batched):
        return (_integer(items),)
    try:
        return IntIds(array("q", items))  # the fast path: every batch comes through here
    except (TypeError, ValueError, OverflowError):
        return tuple(map(_integer, items))


def _integer(value: Any) -> Any:
    try:
        return operator.index(value)
    except TypeError:
        return value  # names and pairs are ids too


def _checksum(ids: Sequence[Any], before: int) -> int:
    # CRC-32 and not a list of ids: a state stays small, and a resume takes the same time for any
    # length of the dataset.
    try:
        data = array("q", ids).tobytes()
    except (TypeError, OverflowError):
        data = repr(ids).encode()
    return zlib.crc32(data, before)

"""How far an epoch is trained: a cursor in samples that moves when a step is done.

Batches that were handed out but not yet committed are pending: after a kill they come again. A
running checksum of the trained ids goes with the cursor, so that a resume which would draw another
order is seen before its first batch.
"""

from __future__ import annotations

import operator
import zlib
from array import array
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from midstep.core.errors import ConfigError, FormatError

__all__ = ["Numbers", "Trained", "ids_of", "nothing"]


def nothing() -> None:
    """A batch that leaves nothing to settle."""


class Numbers(tuple[int, ...]):
    """Ids that are known to be integers, all of them, so that nobody has to look again."""

    __slots__ = ()


class Trained:
    """The place of a run in its data: an epoch and the samples of it that were trained on.

    >>> trained = Trained()
    >>> trained.hand_out((4, 2))
    >>> trained.hand_out((0,))
    >>> trained.commit(2)
    >>> trained.cursor, trained.pending
    (2, 1)
    """

    def __init__(self) -> None:
        self.epoch = self.cursor = 0
        self.checksum: int | None = 0
        self.pending = 0
        """Samples handed out since the last commit."""
        self._handed: deque[tuple[int, int, Callable[[], object]]] = deque()
        self._last: int | None = 0  # checksum up to the last batch that was handed out

    def place(self, epoch: int, cursor: int = 0, checksum: int | None = None) -> None:
        """Stand at `cursor` of `epoch`; the ids before it must have this checksum, if given."""
        if epoch < 0 or cursor < 0:
            raise ConfigError(f"epoch and cursor count from 0, got epoch {epoch}, cursor {cursor}")
        self.epoch, self.cursor, self.checksum = epoch, cursor, checksum if cursor else 0
        self._handed.clear()
        self.pending, self._last = 0, self.checksum

    def hand_out(self, ids: Sequence[Any], settle: Callable[[], object] = nothing) -> None:
        """Note a batch that the loop was given; `settle` is called when it is trained on."""
        count, self._last = len(ids), _checksum(ids, self._last or 0)
        self.pending += count
        self._handed.append((count, self._last, settle))

    def commit(self, count: int | None = None) -> None:
        """The step is done: `count` further samples are trained on, or all that were handed out."""
        left = self.pending if count is None else count
        if not 0 <= left <= self.pending:
            raise ConfigError(f"cannot commit {left} samples; {self.pending} were handed out")
        while self._handed and left >= self._handed[0][0]:
            count_of_batch, self.checksum, settle = self._handed.popleft()
            self.cursor += count_of_batch
            self.pending -= count_of_batch
            left -= count_of_batch
            settle()
        if left:
            raise ConfigError(f"a step ends with a batch; {left} samples of the next are left over")

    def skip(self, draws: Iterator[Any], *, batched: bool) -> None:
        """Draw, without reading data, what was trained on already, and check that it is the same.

        Args:
            draws: what the sampler gives: batches of indices, or indices.
            batched: which of the two.
        """
        position = checksum = 0
        while position < self.cursor:
            index = next(draws, None)
            if index is None:
                raise self._other_order(f"the order ends after {position} samples")
            ids = ids_of(index, batched=batched)
            position, checksum = position + len(ids), _checksum(ids, checksum)
        if position > self.cursor:
            raise self._other_order("that lies inside a batch")
        if self.checksum is not None and checksum != self.checksum:
            raise self._other_order("the samples before it are others than those trained on")
        self.checksum = self._last = checksum

    def _other_order(self, reason: str) -> FormatError:
        return FormatError(
            f"cannot go on at sample {self.cursor} of epoch {self.epoch}: {reason}. Use the same "
            "data, sampler, batch size and seed; a sampler that keeps state of its own or draws "
            "between batches cannot be resumed"
        )


def ids_of(index: Any, *, batched: bool) -> tuple[Any, ...]:
    """What a sampler drew for one batch as a flat tuple, integers where they are integers.

    >>> import torch
    >>> ids_of(torch.tensor([3, 1]), batched=True), ids_of("cat", batched=False)
    ((3, 1), ('cat',))
    """
    found = index.tolist() if hasattr(index, "tolist") else index
    # Without batching a tuple is one id, and a list is a batch that the dataset reads by itself.
    if not isinstance(found, list) and (isinstance(found, str) or not batched):
        return (_integer(found),)
    try:
        return Numbers(array("q", found))  # as fast as it gets, for every batch passes here
    except (TypeError, ValueError, OverflowError):
        return tuple(map(_integer, found))


def _integer(value: Any) -> Any:
    try:
        return operator.index(value)
    except TypeError:
        return value  # names and pairs are ids too


def _checksum(ids: Sequence[Any], before: int) -> int:
    try:
        data = array("q", ids).tobytes()
    except (TypeError, OverflowError):
        data = repr(ids).encode()
    return zlib.crc32(data, before)

"""Counts wrong tokens by address, in bounded memory."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

__all__ = ["WrongTokens"]


class WrongTokens:
    """How many wrong tokens an address has sent lately.

    A right token is let through even from an address that has sent wrong ones: with 256 bits
    guessing is hopeless, and a lock on the address would let any local user lock out the owner.

    Args:
        limit: wrong tokens before further ones are answered with 429.
        window_s: after this long without a wrong one the count starts again.
        addresses: how many addresses are remembered, the oldest are forgotten.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        *,
        limit: int,
        window_s: float = 60.0,
        addresses: int = 4096,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.limit, self.window_s, self.addresses = limit, window_s, addresses
        self._clock = clock
        self._seen: OrderedDict[str, tuple[int, float]] = OrderedDict()

    def note(self, address: str) -> bool:
        """Count a wrong token; True when the address is over its limit."""
        count, last = self._seen.pop(address, (0, 0.0))
        now = self._clock()
        count = 1 if now - last > self.window_s else count + 1
        self._seen[address] = (count, now)
        while len(self._seen) > self.addresses:
            self._seen.popitem(last=False)
        return count > self.limit

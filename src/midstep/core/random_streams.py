"""Named random streams. They are counter-based: any draw can be made without the ones before it.

The key of a stream is a hash of (seed, name, epoch, ...). The parts are hashed, never added, so
that seed 0 in epoch 1 and seed 1 in epoch 0 are unrelated.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from midstep.core.errors import ConfigError

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray


_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15
"""The step between two counters of SplitMix64."""


def stream_key(seed: int, name: str, *parts: int) -> int:
    """The 64-bit key of the stream `name` under `seed`, for an epoch or further numbers.

    >>> stream_key(0, "order", 1) == stream_key(1, "order", 0)
    False
    """
    # A separator that no name contains, so that ("a", 12) and ("a1", 2) differ.
    text = "\x1f".join(["midstep", str(int(seed)), name, *(str(int(part)) for part in parts)])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def _mix(value: int) -> int:
    """The finaliser of SplitMix64 (Steele, Lea, Flood 2014): a bijection of 64-bit words."""
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


def mix_words(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """`_mix` for an array. Products of uint64 wrap around, so no mask is needed."""
    import numpy as np

    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


class RandomStream:
    """Random numbers by position. A stream has no state and uses no global generator.

    >>> stream = RandomStream(7, "negatives", epoch=2)
    >>> stream.integer(10, at=5) == RandomStream(7, "negatives", epoch=2).integer(10, at=5)
    True
    """

    def __init__(self, seed: int, name: str, *, epoch: int = 0) -> None:
        self.seed, self.name, self.epoch = int(seed), name, int(epoch)
        self.key = stream_key(seed, name, epoch)

    def bits(self, at: int) -> int:
        """Sixty-four random bits at position `at`."""
        return _mix((self.key + (at + 1) * _GOLDEN) & _MASK)

    def bits_at(self, positions: NDArray[np.int64]) -> NDArray[np.uint64]:
        """`bits` for an array of positions, none of them negative.

        >>> import numpy as np
        >>> stream = RandomStream(3, "steering")
        >>> int(stream.bits_at(np.array([5]))[0]) == stream.bits(5)
        True
        """
        import numpy as np

        counters = np.ascontiguousarray(positions, dtype=np.int64).view(np.uint64) + np.uint64(1)
        return mix_words(counters * np.uint64(_GOLDEN) + np.uint64(self.key))

    def uniform_at(self, positions: NDArray[np.int64]) -> NDArray[np.float64]:
        """`uniform` for an array of positions, none of them negative."""
        import numpy as np

        # 53 bits, as many as a double holds exactly: 1.0 cannot come out by rounding.
        return (self.bits_at(positions) >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def uniform(self, at: int) -> float:
        """A float in [0, 1) at position `at`."""
        return (self.bits(at) >> 11) * 2.0**-53

    def integer(self, bound: int, *, at: int) -> int:
        """An integer in [0, bound) at position `at`; its bias is below bound / 2^64."""
        if bound < 1:
            raise ConfigError(f"bound must be at least 1, got {bound}")
        # The high word of a 128-bit product (Lemire 2019): no division, no loop of rejections.
        return (self.bits(at) * bound) >> 64

    def child(self, name: str) -> RandomStream:
        """An independent stream with a key made from this one and `name`."""
        return RandomStream(self.key, name, epoch=self.epoch)

    def torch_generator(self) -> torch.Generator:
        """A new torch generator on the CPU, seeded with the key of this stream."""
        import torch

        return torch.Generator().manual_seed(self.key)

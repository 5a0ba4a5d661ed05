"""The global random generators (Python, NumPy, torch): kept, put back, seeded, stored.

`kept_random` is the guard around everything that may draw but must move nothing: a validation, a
scan, the drawing of an epoch's order.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

__all__ = [
    "RandomState",
    "generators_of",
    "kept_random",
    "seed_generators",
    "seed_global",
    "seeded_random",
]

_DEPTH = 4
"""How far below a sampler its generators are looked for: batch sampler, sampler, and a bit more."""

_GENERATORS = (torch.Generator, np.random.Generator, np.random.RandomState, random.Random)


@dataclass(frozen=True)
class RandomState:
    """Where the global generators stand, and the generators passed in.

    >>> before = RandomState.capture()
    >>> first = random.random()
    >>> before.restore()
    >>> random.random() == first
    True
    """

    python: Any
    numpy: Any
    torch: Tensor
    cuda: tuple[Tensor, ...] = ()
    own: tuple[Any, ...] = ()

    @classmethod
    def capture(cls, generators: Sequence[Any] = (), *, cuda: bool = False) -> RandomState:
        """The state now, of CUDA devices too when asked and in use."""
        used = cuda and torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
        devices = torch.cuda.get_rng_state_all() if used else ()
        return cls(
            random.getstate(),
            np.random.get_state(legacy=False),
            torch.default_generator.get_state(),
            tuple(devices),
            tuple(_state(generator) for generator in generators),
        )

    def restore(self, generators: Sequence[Any] = ()) -> None:
        """Put every generator back; `generators` are those that were captured."""
        random.setstate(self.python)
        np.random.set_state(self.numpy)
        torch.default_generator.set_state(self.torch)
        if self.cuda:
            torch.cuda.set_rng_state_all(list(self.cuda))
        for generator, state in zip(generators, self.own, strict=True):
            _set_state(generator, state)

    def same(self, other: RandomState) -> bool:
        """Whether the global generators of the host stand at the same place."""
        return (
            self.python == other.python
            and _same(self.numpy, other.numpy)
            and bool(torch.equal(self.torch, other.torch))
        )

    def tensors(self) -> dict[str, Tensor]:
        """The state as named byte tensors, for a snapshot."""
        found = {"python": _packed(self.python), "numpy": _packed(self.numpy), "torch": self.torch}
        found |= {f"cuda.{index}": state for index, state in enumerate(self.cuda)}
        found |= {f"own.{index}": _packed(state) for index, state in enumerate(self.own)}
        return found

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> RandomState:
        """The state that `tensors` gave.

        >>> state = RandomState.capture()
        >>> RandomState.from_tensors(state.tensors()).same(state)
        True
        """
        version, words, gauss = _unpacked(tensors["python"])
        return cls(
            (version, tuple(words), gauss),
            _unpacked(tensors["numpy"]),
            tensors["torch"],
            tuple(_numbered(tensors, "cuda.")),
            tuple(_unpacked(each) for each in _numbered(tensors, "own.")),
        )


@contextmanager
def kept_random(generators: Sequence[Any] = (), *, cuda: bool = False) -> Iterator[None]:
    """Whatever is drawn or seeded inside the block, the generators stand as before it.

    >>> before = RandomState.capture()
    >>> with kept_random():
    ...     _ = torch.rand(3), random.random(), np.random.rand()
    >>> RandomState.capture().same(before)
    True
    """
    state = RandomState.capture(generators, cuda=cuda)
    try:
        yield
    finally:
        state.restore(generators)


@contextmanager
def seeded_random(key: int, generators: Sequence[Any] = ()) -> Iterator[None]:
    """Every generator seeded from `key` inside the block, and put back after it."""
    with kept_random(generators):
        seed_global(key)
        seed_generators(generators, key)
        yield


def seed_global(key: int) -> None:
    """Seed Python, NumPy and torch (CPU) from one 64-bit key, a few microseconds in all."""
    random.seed(key)
    np.random.seed(key >> 32)  # NumPy takes 32 bits; the upper half is as well mixed as the lower
    # Not torch.manual_seed: that visits every device and takes a hundred times as long.
    torch.default_generator.manual_seed(key)


def seed_generators(generators: Sequence[Any], key: int) -> None:
    """Seed generators of any of the four kinds from one key."""
    for generator in generators:
        if isinstance(generator, torch.Generator):
            generator.manual_seed(key)
        elif isinstance(generator, np.random.Generator):
            bits = generator.bit_generator
            fresh: Any = type(bits)(key)
            bits.state = fresh.state
        elif isinstance(generator, np.random.RandomState):
            generator.seed(key >> 32)
        else:
            generator.seed(key)


def generators_of(*roots: Any, outside: Sequence[Any] = (), depth: int = _DEPTH) -> list[Any]:
    """The generators that samplers hold in their attributes, each once, in a fixed order.

    Args:
        roots: samplers, or generators themselves.
        outside: objects not to look into, such as the dataset.
        depth: how many attributes deep to look.

    >>> sampler = torch.utils.data.RandomSampler(range(3), generator=torch.Generator())
    >>> generators_of(sampler) == [sampler.generator]
    True
    """
    found: list[Any] = []
    seen = {id(each) for each in outside}
    for root in roots:
        _collect(root, depth + 1, seen, found)
    return found


def _collect(value: Any, depth: int, seen: set[int], found: list[Any]) -> None:
    if id(value) in seen or depth == 0:
        return
    seen.add(id(value))
    if isinstance(value, _GENERATORS) and not isinstance(value, random.SystemRandom):
        found.append(value)
    elif hasattr(value, "__dict__") and not isinstance(value, torch.Tensor | type):
        for name in sorted(vars(value)):
            _collect(vars(value)[name], depth - 1, seen, found)


# -- one generator --------------------------------------------------------------------------------


def _state(generator: Any) -> Any:
    if isinstance(generator, np.random.Generator):
        return dict(generator.bit_generator.state)
    if isinstance(generator, random.Random):
        return generator.getstate()
    if isinstance(generator, np.random.RandomState):
        return generator.get_state(legacy=False)
    return generator.get_state()


def _set_state(generator: Any, state: Any) -> None:
    if isinstance(generator, np.random.Generator):
        generator.bit_generator.state = state
    elif isinstance(generator, random.Random):
        version, words, gauss = state
        generator.setstate((version, tuple(words), gauss))
    elif isinstance(generator, np.random.RandomState):
        generator.set_state(state)
    else:
        generator.set_state(torch.as_tensor(state, dtype=torch.uint8))


def _same(one: Any, other: Any) -> bool:
    """Whether two states of NumPy are equal; one from a file has lists for arrays."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    return bool(np.array_equal(one, other))


# -- bytes ----------------------------------------------------------------------------------------


def _packed(state: Any) -> torch.Tensor:
    """A state of numbers as JSON in a byte tensor: readable anywhere, and never a pickle."""
    text = json.dumps(state, default=lambda array: array.tolist())
    return torch.frombuffer(bytearray(text.encode()), dtype=torch.uint8)


def _unpacked(data: torch.Tensor) -> Any:
    return json.loads(bytes(data.numpy()).decode())


def _numbered(tensors: Mapping[str, Tensor], prefix: str) -> list[Tensor]:
    count = sum(name.startswith(prefix) for name in tensors)
    return [tensors[f"{prefix}{index}"] for index in range(count)]

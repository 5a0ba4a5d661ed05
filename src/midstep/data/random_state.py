"""Every random generator that a training draws from: save, restore, seed and find them.

`preserve_rng` guards code that may draw but must not change the training: a validation, a scan, the
order of an epoch.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np
import torch

from midstep.core.errors import ConfigError, FormatError

_DEPTH = 4
"""How many attributes deep `find_generators` searches: batch sampler, sampler, and two more."""

_MOST_ITEMS = 32
"""Items of a list, tuple or dictionary that are searched: indices of samples may be many."""

Generator = torch.Generator | np.random.Generator | np.random.RandomState | random.Random
"""A generator of a sampler, a transform or the user."""

Generators = Mapping[str, Generator] | Sequence[Generator]
"""Generators by name, or in a fixed order."""


@dataclass(frozen=True, kw_only=True)
class RandomState:
    """The states of all generators at one moment. It shares no memory with them.

    >>> before = RandomState.take()
    >>> first = random.random()
    >>> before.restore()
    >>> random.random() == first
    True
    """

    python: Any
    """State of the module `random`."""
    numpy: Any
    """State of NumPy's global generator, with the name of its algorithm."""
    cpu: torch.Tensor
    """State of torch's generator on the CPU."""
    cuda: tuple[torch.Tensor, ...] = ()
    """State of each CUDA device; empty if CUDA is not in use or `cuda` was False."""
    generators: Mapping[str, Any] = field(default_factory=dict)
    """States of further generators, for example of samplers, by name or by position."""
    worker_base_seed: int | None = None
    """The seed from which the loader's workers of this epoch derive theirs."""

    @classmethod
    def take(
        cls,
        generators: Generators = (),
        *,
        cuda: bool = True,
        worker_base_seed: int | None = None,
    ) -> RandomState:
        """Copy the current states. This draws nothing and does not initialise CUDA.

        Args:
            generators: further generators, by name or in a fixed order.
            cuda: False leaves the devices out, which is faster.
            worker_base_seed: the base seed of the loader's running iterator.
        """
        has_cuda = cuda and torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
        devices = range(torch.cuda.device_count()) if has_cuda else ()
        return cls(
            python=random.getstate(),
            numpy=np.random.get_state(legacy=False),
            cpu=torch.default_generator.get_state(),
            cuda=tuple(torch.cuda.get_rng_state(device) for device in devices),
            generators={
                name: get_generator_state(name, each) for name, each in _by_name(generators)
            },
            worker_base_seed=worker_base_seed,
        )

    def restore(self, generators: Generators = ()) -> None:
        """Restore every generator. If one is missing, none is changed."""
        given = dict(_by_name(generators))
        self.check(given)
        random.setstate(self.python)
        np.random.set_state(self.numpy)
        torch.default_generator.set_state(self.cpu)
        for device, state in enumerate(self.cuda):
            torch.cuda.set_rng_state(state, device)
        for name, state in self.generators.items():
            set_generator_state(given[name], state)

    def check(self, generators: Generators = ()) -> None:
        """Raise if the generators or devices are not those of this state."""
        given = dict(_by_name(generators))
        if given.keys() != self.generators.keys():
            raise ConfigError(
                f"the snapshot has generators {sorted(self.generators)}, "
                f"but {sorted(given)} were given; pass the same ones"
            )
        for name, generator in given.items():
            if type(get_generator_state(name, generator)) is not type(self.generators[name]):
                raise ConfigError(f"generator {name!r} is of another kind than in the snapshot")
        if self.cuda and len(self.cuda) > (present := torch.cuda.device_count()):
            raise ConfigError(
                f"the snapshot has random states of {len(self.cuda)} CUDA devices, this machine "
                f"has {present}; resume on a machine with as many, or restore with random=False"
            )

    def same(self, other: RandomState) -> bool:
        """Whether the global generators of the CPU have the same state; devices do not count.

        >>> RandomState.take().same(RandomState.take())
        True
        """
        return (
            self.python == other.python
            and _same(self.numpy, other.numpy)
            and bool(torch.equal(self.cpu, other.cpu))
        )

    def state_tree(self) -> dict[str, Any]:
        """The state as a tree for a checkpoint; docs/checkpoint-format.md lists its fields."""
        return {
            "python": self.python,
            "numpy": self.numpy,
            "cpu": self.cpu,
            "cuda": list(self.cuda),
            "generators": dict(self.generators),
            "worker_base_seed": self.worker_base_seed,
        }

    @classmethod
    def from_tree(cls, tree: Any) -> RandomState:
        """The state from what `state_tree` returned."""
        try:
            return cls(**{**tree, "cuda": tuple(tree["cuda"])})
        except (TypeError, KeyError) as error:
            raise FormatError(f"random states are incomplete: {error}") from None


@contextmanager
def preserve_rng(generators: Generators = (), *, cuda: bool = True) -> Iterator[None]:
    """Restore all generators after the block, whatever it draws or seeds.

    >>> before = RandomState.take()
    >>> with preserve_rng():
    ...     _ = torch.rand(3), random.random(), np.random.rand()
    >>> RandomState.take().same(before)
    True
    """
    state = RandomState.take(generators, cuda=cuda)
    try:
        yield
    finally:
        state.restore(generators)


@contextmanager
def temporary_seed(key: int, generators: Sequence[Any] = ()) -> Iterator[None]:
    """Seed every generator from `key` for the block, and restore them after it."""
    with preserve_rng(generators, cuda=False):
        seed_global(key)
        seed_generators(generators, key)
        yield


def seed_global(key: int) -> None:
    """Seed Python, NumPy and torch (CPU) from one 64-bit key. It takes a few microseconds."""
    random.seed(key)
    np.random.seed(key >> 32)  # NumPy takes 32 bits; both halves of the key are mixed equally well
    # Not torch.manual_seed: it seeds every device too and takes a hundred times as long.
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


def global_generators() -> list[Any]:
    """The generators of torch, numpy and Python that every `RandomState` has.

    Code refers to them by `from random import gauss`, or by `random_split`, whose default they are.
    One that was saved as a generator of the user's would be restored twice, and at another time.
    """
    # A global function of a library is a method of its global generator.
    libraries = (getattr(draw, "__self__") for draw in (random.random, np.random.random))  # noqa: B009
    return [torch.default_generator, *torch.cuda.default_generators, *libraries]


def find_generators(
    *roots: Any, outside: Sequence[Any] = (), depth: int = _DEPTH, in_containers: bool = True
) -> list[Any]:
    """Find the generators in the attributes of samplers, each once, in a fixed order.

    The global ones are left out: every `RandomState` has them.

    Args:
        roots: samplers, or generators themselves.
        outside: objects that are not searched, such as the dataset.
        depth: how many attributes deep to search.
        in_containers: whether lists, tuples and dictionaries are searched, too.

    >>> sampler = torch.utils.data.RandomSampler(range(3), generator=torch.Generator())
    >>> find_generators(sampler) == [sampler.generator]
    True
    """
    generators: list[Any] = []
    seen = {id(each) for each in (*outside, *global_generators())}
    for root in roots:
        _collect(root, depth + 1, seen, generators, in_containers)
    return generators


def _collect(
    value: Any, depth: int, seen: set[int], generators: list[Any], in_containers: bool
) -> None:
    if id(value) in seen or depth == 0:
        return
    seen.add(id(value))
    # A SystemRandom has no state: it draws from the operating system.
    if isinstance(value, Generator) and not isinstance(value, random.SystemRandom):
        generators.append(value)
    elif hasattr(value, "__dict__") and not isinstance(value, torch.Tensor | type):
        for name in sorted(vars(value)):
            _collect(vars(value)[name], depth - 1, seen, generators, in_containers)
    elif in_containers and isinstance(value, list | tuple | dict):
        items = value.values() if isinstance(value, dict) else value
        for each in islice(items, _MOST_ITEMS):
            _collect(each, depth - 1, seen, generators, in_containers)


# -- one generator --------------------------------------------------------------------------------


def _by_name(generators: Generators) -> list[tuple[str, Any]]:
    """Generators with their names in a fixed order; those of a sequence are named by position."""
    if isinstance(generators, Mapping):
        return sorted(generators.items())
    return [(str(position), each) for position, each in enumerate(generators)]


def get_generator_state(name: str, generator: Any) -> Any:
    """A copy of the state of a generator of any of the four kinds."""
    if isinstance(generator, torch.Generator):
        return generator.get_state()
    if isinstance(generator, np.random.Generator):
        return generator.bit_generator.state
    if isinstance(generator, np.random.RandomState):
        return generator.get_state(legacy=False)
    if isinstance(generator, random.Random):
        return generator.getstate()
    raise ConfigError(
        f"generator {name!r} is a {type(generator).__qualname__}; pass a torch.Generator, "
        "a NumPy generator or a random.Random"
    )


def set_generator_state(generator: Any, state: Any) -> None:
    """Set a generator to what `get_generator_state` returned."""
    if isinstance(generator, np.random.Generator):
        generator.bit_generator.state = state
    elif isinstance(generator, torch.Generator | np.random.RandomState):
        generator.set_state(state)
    else:
        generator.setstate(state)


def _same(one: Any, other: Any) -> bool:
    """Whether two NumPy states, dictionaries of arrays and numbers, are equal."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    return bool(np.array_equal(one, other))

"""Every random generator that a training draws from: taken together, put back together."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from midstep.core.errors import ConfigError, FormatError

__all__ = ["Generator", "RandomState", "random_guard"]

Generator = torch.Generator | np.random.Generator | np.random.RandomState | random.Random
"""A generator that belongs to a sampler, a transform or the user."""


@dataclass(frozen=True, kw_only=True)
class RandomState:
    """The states of all generators at one moment. Nothing in it is shared with them.

    >>> before = RandomState.take()
    >>> first = random.random()
    >>> before.restore()
    >>> random.random() == first
    True
    """

    python: Any
    """Of `random`."""
    numpy: Any
    """Of NumPy's global generator, with the name of its algorithm."""
    cpu: torch.Tensor
    """Of torch on the CPU."""
    cuda: tuple[torch.Tensor, ...] = ()
    """Of each CUDA device; empty while CUDA was not in use."""
    generators: Mapping[str, Any] = field(default_factory=dict)
    """Of generators with a name, as of samplers."""
    worker_base_seed: int | None = None
    """From which the loader's workers of this epoch derive theirs."""

    @classmethod
    def take(
        cls,
        *,
        generators: Mapping[str, Generator] | None = None,
        worker_base_seed: int | None = None,
    ) -> RandomState:
        """The states as they are now; nothing is drawn, and CUDA is not woken up."""
        awake = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
        devices = range(torch.cuda.device_count()) if awake else ()
        return cls(
            python=random.getstate(),
            numpy=np.random.get_state(legacy=False),
            cpu=torch.get_rng_state(),
            cuda=tuple(torch.cuda.get_rng_state(device) for device in devices),
            generators={
                name: _state_of(name, generator)
                for name, generator in sorted((generators or {}).items())
            },
            worker_base_seed=worker_base_seed,
        )

    def restore(self, *, generators: Mapping[str, Generator] | None = None) -> None:
        """Put every generator back; refused before any is touched if one is missing."""
        given = dict(generators or {})
        self.check(given)
        random.setstate(self.python)
        np.random.set_state(self.numpy)
        torch.set_rng_state(self.cpu)
        for device, state in enumerate(self.cuda):
            torch.cuda.set_rng_state(state, device)
        for name, state in self.generators.items():
            _put_back(given[name], state)

    def check(self, given: Mapping[str, Generator]) -> None:
        """Refuse generators or devices that are not those of this state."""
        if given.keys() != self.generators.keys():
            raise ConfigError(
                f"the snapshot has generators {sorted(self.generators)}, "
                f"but {sorted(given)} were given; name the same ones"
            )
        for name, generator in given.items():
            if type(_state_of(name, generator)) is not type(self.generators[name]):
                raise ConfigError(f"generator {name!r} is of another kind than in the snapshot")
        if len(self.cuda) > (present := torch.cuda.device_count()):
            raise ConfigError(
                f"the snapshot has random states of {len(self.cuda)} CUDA devices, here are "
                f"{present}; resume where there are as many, or restore with random=False"
            )

    def state_tree(self) -> dict[str, Any]:
        """As a tree that can be saved."""
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
        """From what `state_tree` gave."""
        try:
            return cls(**{**tree, "cuda": tuple(tree["cuda"])})
        except (TypeError, KeyError) as error:
            raise FormatError(f"random states are incomplete: {error}") from None


def _state_of(name: str, generator: Any) -> Any:
    if isinstance(generator, torch.Generator):
        return generator.get_state()
    if isinstance(generator, np.random.Generator):
        return generator.bit_generator.state
    if isinstance(generator, np.random.RandomState):
        return generator.get_state(legacy=False)
    if isinstance(generator, random.Random):
        return generator.getstate()
    raise ConfigError(
        f"generator {name!r} is a {type(generator).__qualname__}; give a torch.Generator, "
        "a NumPy generator or a random.Random"
    )


def _put_back(generator: Any, state: Any) -> None:
    if isinstance(generator, np.random.Generator):
        generator.bit_generator.state = state
    elif isinstance(generator, torch.Generator | np.random.RandomState):
        generator.set_state(state)
    else:
        generator.setstate(state)


@contextmanager
def random_guard(generators: Mapping[str, Generator] | None = None) -> Iterator[None]:
    """Leaves every global generator, and those given, as they were.

    >>> before = torch.get_rng_state()
    >>> with random_guard():
    ...     _ = torch.rand(3)
    >>> torch.equal(torch.get_rng_state(), before)
    True
    """
    state = RandomState.take(generators=generators)
    try:
        yield
    finally:
        state.restore(generators=generators)

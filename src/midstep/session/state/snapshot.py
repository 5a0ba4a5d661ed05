"""`Snapshot`: the whole state of a training at a step boundary, cloned in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from midstep.core.errors import ConfigError, FormatError
from midstep.core.protocols import Stateful
from midstep.data.random_state import Generator, RandomState
from midstep.session.state.large_arrays import LargeArray, LargeCopies, block_bytes, with_large
from midstep.session.state.shared_storage import clone_tree
from midstep.session.state.state_tree import Path, rebuild, tensors_of, walk

Parts = Mapping[str, Stateful | None]
"""Objects with a state, by name: model, optimizer, scheduler, scaler and others; None if absent."""


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """The state of a training between two steps. It shares no memory with the training.

    >>> model = torch.nn.Linear(2, 1)
    >>> kept = Snapshot.take({"model": model}, step=3)
    >>> _ = torch.nn.init.zeros_(model.weight)
    >>> kept.restore({"model": model})
    >>> bool(model.weight.abs().sum() > 0), kept.step
    (True, 3)
    """

    step: int
    """Finished optimizer steps."""
    epoch: int = 0
    cursor: int = 0
    """Samples of this epoch that were trained on."""
    timeline: int = 0
    """How often the run was rewound."""
    states: Mapping[str, Any]
    """The `state_dict` of each part, cloned."""
    random: RandomState
    """The state of every generator at this boundary."""
    epoch_random: RandomState | None = None
    """The state of every generator when the epoch's iterator was made, under the policy `user`."""
    config: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the run."""
    fingerprints: Mapping[str, Any] = field(default_factory=dict)
    """What must be equal for a resume to continue the same training."""
    origin: Mapping[str, Any] = field(default_factory=dict)
    """Which run took it, and after which of its facts; empty if that is unknown."""
    large: Mapping[Path, LargeArray] = field(default_factory=dict)
    """Large arrays by path, where `states` has None; only snapshots of a ring have them apart."""

    @classmethod
    def take(
        cls,
        parts: Parts,
        *,
        step: int,
        epoch: int = 0,
        cursor: int = 0,
        timeline: int = 0,
        generators: Mapping[str, Generator] | None = None,
        worker_base_seed: int | None = None,
        epoch_random: RandomState | None = None,
        config: Mapping[str, Any] | None = None,
        fingerprints: Mapping[str, Any] | None = None,
        origin: Mapping[str, Any] | None = None,
        to_host: bool = False,
        large: LargeCopies | None = None,
    ) -> Snapshot:
        """Clone everything. Called by the training thread at a boundary.

        Args:
            parts: what to clone, by name.
            step: finished optimizer steps.
            epoch: the running epoch.
            cursor: samples of this epoch that were trained on.
            timeline: how often the run was rewound.
            generators: further generators by name, such as those of samplers.
            worker_base_seed: of the loader's running iterator.
            epoch_random: the generators when the epoch's iterator was made.
            config: settings of the run.
            fingerprints: see `fingerprint.fingerprints`.
            origin: which run takes it, and after which of its facts.
            to_host: clone tensors of other devices into host memory at once, which takes longer;
                `to_host()` does it later, in any thread.
            large: copies large arrays apart, with the blocks of an earlier snapshot.
        """
        # Generators first: a `state_dict` of the user may draw.
        random = RandomState.take(generators or {}, worker_base_seed=worker_base_seed)
        live = {name: part.state_dict() for name, part in parts.items() if part is not None}
        live, apart = (live, {}) if large is None else large.take(live)
        return cls(
            step=step,
            epoch=epoch,
            cursor=cursor,
            timeline=timeline,
            large=apart,
            states=clone_tree(live, to_host=to_host),
            random=random,
            epoch_random=epoch_random,
            config=clone_tree(dict(config or {})),
            fingerprints=clone_tree(dict(fingerprints or {})),
            origin=clone_tree(dict(origin or {})),
        )

    def restore(
        self,
        parts: Parts,
        *,
        generators: Mapping[str, Generator] | None = None,
        random: bool = True,
    ) -> None:
        """Restore the parts, in their order, then every generator.

        The parts get copies, so a snapshot can be restored any number of times. Generators come
        last: a `load_state_dict` of the user may draw random numbers.

        Args:
            parts: the same names as when it was taken.
            generators: the same names as when it was taken.
            random: False leaves all generators unchanged.
        """
        # All checks come before the first part is changed: half a restore would be no state at all.
        present = {name: part for name, part in parts.items() if part is not None}
        self._check(present)
        if random:
            self.random.check(generators or {})
        for name, part in present.items():
            part.load_state_dict(self._copy_of(name))
        if random:
            self.random.restore(generators or {})

    def _copy_of(self, name: str) -> Any:
        """The state of a part, cloned."""
        large = {path: array for path, array in self.large.items() if path[0] == name}
        return with_large({name: clone_tree(self.states[name])}, large)[name]

    def to_host(self) -> Snapshot:
        """The same snapshot in host memory; itself if it is there already."""
        if all(tensor.device.type == "cpu" for _, tensor in tensors_of(self.states)):
            return self
        return replace(self, states=clone_tree(self.states, to_host=True))

    def _check(self, parts: Mapping[str, Stateful]) -> None:
        if parts.keys() == self.states.keys():
            return
        odd = sorted(parts.keys() ^ self.states.keys())
        raise ConfigError(
            f"the snapshot of step {self.step} has {', '.join(sorted(self.states)) or 'no parts'}; "
            f"{', '.join(sorted(parts)) or 'none'} were given. Give exactly those it has "
            f"({', '.join(odd)} differ)"
        )

    @property
    def bytes(self) -> int:
        """Bytes of its arrays, shared memory counted once."""
        return snapshot_bytes(self)

    def state_tree(self) -> dict[str, Any]:
        """What `state.json` and the tensor file store; the manifest stores the other fields."""
        return {
            **with_large(self.states, self.large),
            "random": self.random.state_tree(),
            "epoch_random": self.epoch_random.state_tree() if self.epoch_random else None,
        }

    @classmethod
    def from_tree(cls, tree: Any, **progress: Any) -> Snapshot:
        """Build a snapshot from a `state_tree` and the fields of the manifest."""
        try:
            states = dict(tree)
            random, epoch_random = states.pop("random"), states.pop("epoch_random")
        except (TypeError, ValueError, KeyError) as error:
            raise FormatError(f"the state is incomplete: {error}") from None
        return cls(
            states=states,
            random=RandomState.from_tree(random),
            epoch_random=None if epoch_random is None else RandomState.from_tree(epoch_random),
            **progress,
        )


def snapshot_bytes(*snapshots: Snapshot) -> int:
    """Bytes of all arrays in some snapshots, shared memory counted once."""
    states = tree_bytes(*(each.states for each in snapshots))
    return states + block_bytes(*(each.large for each in snapshots))


def tree_bytes(*trees: Any) -> int:
    """Bytes of all tensors and arrays in some states, shared memory counted once.

    >>> weight = torch.zeros(4)
    >>> tree_bytes({"tied": [weight, weight]})
    16
    """
    storages: dict[Any, int] = {}
    for _, leaf in (each for tree in trees for each in walk(tree)):
        if isinstance(leaf, torch.Tensor):
            # By storage, because views and tied weights share one.
            storage = leaf.untyped_storage()
            storages[leaf.device, storage.data_ptr()] = storage.nbytes()
        elif isinstance(leaf, np.ndarray):
            storages[id(leaf)] = leaf.nbytes
    return sum(storages.values())


_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
"""By item size. Bits are compared, because 0.0 equals -0.0 and NaN does not equal itself."""


def share_unchanged(later: Snapshot, earlier: Snapshot) -> Snapshot:
    """`later`, with the tensors of `earlier` where both have the same bits.

    So frozen weights take memory once in a ring of snapshots. A comparison stops at the first
    difference, so it takes time only where it saves memory.

    >>> frozen = torch.nn.Linear(2, 2)
    >>> first, second = (Snapshot.take({"model": frozen}, step=step) for step in (0, 1))
    >>> second = share_unchanged(second, first)
    >>> tree_bytes(first.states, second.states) == first.bytes
    True
    """
    if later.states.keys() != earlier.states.keys():
        return later
    candidates = dict(_unshared(earlier))
    shared = {
        id(leaf): same
        for path, leaf in _unshared(later)
        if (same := candidates.get(path)) is not None and _same_bits(same, leaf)
    }
    return replace(later, states=rebuild(later.states, lambda leaf: shared.get(id(leaf), leaf)))


def _unshared(snapshot: Snapshot) -> list[tuple[Path, torch.Tensor]]:
    """Tensors that share no memory within their snapshot: replacing one of two would untie them."""
    tensors = tensors_of(snapshot.states)
    users = Counter(tensor.untyped_storage().data_ptr() for _, tensor in tensors)
    return [each for each in tensors if users[each[1].untyped_storage().data_ptr()] == 1]


def _same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    if (one.dtype, one.shape) != (other.dtype, other.shape) or one.stride() != other.stride():
        return False
    return bool(torch.equal(_bits(one), _bits(other)))


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    plain = torch.view_as_real(tensor) if tensor.dtype.is_complex else tensor
    width = _INTEGERS.get(plain.itemsize)
    return plain if width is None else plain.view(width)

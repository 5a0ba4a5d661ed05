"""A snapshot: the whole state of a training at a step boundary, cloned in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from midstep.core.errors import ConfigError, FormatError
from midstep.core.protocols import Stateful
from midstep.data.random_state import Generator, RandomState
from midstep.session.state.shared_storage import clone_tree
from midstep.session.state.state_tree import Path, rebuild, walk

Parts = Mapping[str, Stateful | None]
"""What is trained, by name: model, optimizer, scheduler, scaler, and whatever else has a state.
A part that is None is not there."""


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """The state of a training between two steps. Nothing in it is shared with the training.

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
    """Samples of this epoch that are trained."""
    timeline: int = 0
    """How often the run was rewound."""
    states: Mapping[str, Any]
    """The `state_dict` of each part, cloned."""
    random: RandomState
    """Every generator, at this boundary."""
    epoch_random: RandomState | None = None
    """Every generator as the epoch's iterator was made, where the order is the user's own."""
    config: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the run."""
    fingerprints: Mapping[str, Any] = field(default_factory=dict)
    """By which a resume knows that it continues the same training."""

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
        to_host: bool = False,
    ) -> Snapshot:
        """Clone everything; called by the training thread at a boundary, it takes a clone's time.

        Args:
            parts: what to clone, by name.
            step: finished optimizer steps.
            epoch: the epoch in progress.
            cursor: samples of this epoch that are trained.
            timeline: how often the run was rewound.
            generators: generators with a name, as of samplers.
            worker_base_seed: of the loader's running iterator.
            epoch_random: the generators as the epoch's iterator was made.
            config: settings of the run; they are written with it.
            fingerprints: see `fingerprint.fingerprints`.
            to_host: clone tensors of other devices into host memory at once, which takes longer;
                `to_host()` does it later, in any thread.
        """
        random = RandomState.take(generators or {}, worker_base_seed=worker_base_seed)
        live = {name: part.state_dict() for name, part in parts.items() if part is not None}
        return cls(
            step=step,
            epoch=epoch,
            cursor=cursor,
            timeline=timeline,
            states=clone_tree(live, to_host=to_host),
            random=random,
            epoch_random=epoch_random,
            config=clone_tree(dict(config or {})),
            fingerprints=clone_tree(dict(fingerprints or {})),
        )

    def restore(
        self,
        parts: Parts,
        *,
        generators: Mapping[str, Generator] | None = None,
        random: bool = True,
    ) -> None:
        """Put the state back into the parts, in their order, then into every generator.

        It can be restored any number of times: the parts get copies.

        Args:
            parts: the same names as when it was taken.
            generators: the same names as when it was taken.
            random: False leaves all generators as they are.
        """
        present = {name: part for name, part in parts.items() if part is not None}
        self._check(present)
        if random:
            self.random.check(generators or {})
        for name, part in present.items():
            part.load_state_dict(clone_tree(self.states[name]))
        if random:
            self.random.restore(generators or {})

    def to_host(self) -> Snapshot:
        """The same snapshot in host memory; itself where it lies there already."""
        leaves = (leaf for _, leaf in walk(self.states) if isinstance(leaf, torch.Tensor))
        if all(leaf.device.type == "cpu" for leaf in leaves):
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
        """Memory that its tensors take, shared memory counted once."""
        return tree_bytes(self.states)

    def state_tree(self) -> dict[str, Any]:
        """What goes to `state.json` and to the tensors; the rest stands in the manifest."""
        return {
            **self.states,
            "random": self.random.state_tree(),
            "epoch_random": self.epoch_random.state_tree() if self.epoch_random else None,
        }

    @classmethod
    def from_tree(cls, tree: Any, **progress: Any) -> Snapshot:
        """From what `state_tree` gave, and the fields of the manifest."""
        try:
            states = dict(tree)
            random, begun = states.pop("random"), states.pop("epoch_random")
        except (TypeError, ValueError, KeyError) as error:
            raise FormatError(f"the state is incomplete: {error}") from None
        return cls(
            states=states,
            random=RandomState.from_tree(random),
            epoch_random=None if begun is None else RandomState.from_tree(begun),
            **progress,
        )


def tree_bytes(tree: Any) -> int:
    """Memory behind the tensors of a state, shared memory counted once.

    >>> weight = torch.zeros(4)
    >>> tree_bytes({"tied": [weight, weight]})
    16
    """
    storages = {
        (leaf.device, storage.data_ptr()): storage.nbytes()
        for _, leaf in walk(tree)
        if isinstance(leaf, torch.Tensor)
        for storage in [leaf.untyped_storage()]
    }
    return sum(storages.values())


_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
"""By their width: bits are compared, since 0.0 equals -0.0 and NaN does not equal itself."""


def bytes_together(snapshots: Iterable[Snapshot]) -> int:
    """Memory that the tensors of some snapshots take, shared memory counted once."""
    storages = {
        storage.data_ptr(): storage.nbytes()
        for snapshot in snapshots
        for tensor in _tensors(snapshot)
        for storage in [tensor.untyped_storage()]
    }
    return sum(storages.values())


def share_unchanged(later: Snapshot, earlier: Snapshot) -> Snapshot:
    """`later`, with the tensors of `earlier` where both have the same bits.

    Comparing ends at the first difference, so it takes time only where it saves memory.

    >>> frozen = torch.nn.Linear(2, 2)
    >>> first, second = (Snapshot.take({"model": frozen}, step=step) for step in (0, 1))
    >>> second = share_unchanged(second, first)
    >>> bytes_together([first, second]) == first.bytes
    True
    """
    if later.states.keys() != earlier.states.keys():
        return later
    known = dict(_alone(earlier))
    shared = {
        id(leaf): found
        for path, leaf in _alone(later)
        if (found := known.get(path)) is not None and _same_bits(found, leaf)
    }
    return replace(later, states=rebuild(later.states, lambda leaf: shared.get(id(leaf), leaf)))


def _tensors(snapshot: Snapshot) -> list[torch.Tensor]:
    return [leaf for _, leaf in walk(snapshot.states) if isinstance(leaf, torch.Tensor)]


def _alone(snapshot: Snapshot) -> list[tuple[Path, torch.Tensor]]:
    """Tensors that share memory with no other of their snapshot; tied ones would come apart."""
    found = [(path, leaf) for path, leaf in walk(snapshot.states) if isinstance(leaf, torch.Tensor)]
    users = Counter(leaf.untyped_storage().data_ptr() for _, leaf in found)
    return [each for each in found if users[each[1].untyped_storage().data_ptr()] == 1]


def _same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    if (one.dtype, one.shape) != (other.dtype, other.shape) or one.stride() != other.stride():
        return False
    return bool(torch.equal(_bits(one), _bits(other)))


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    plain = torch.view_as_real(tensor) if tensor.dtype.is_complex else tensor
    width = _INTEGERS.get(plain.itemsize)
    return plain if width is None else plain.view(width)

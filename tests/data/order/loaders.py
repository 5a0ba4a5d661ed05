"""Loaders whose batches show their ids and every random bit, and a stream that can be killed."""

from __future__ import annotations

import contextlib
import pickle
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch.utils.data import (
    DataLoader,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    Subset,
    SubsetRandomSampler,
    WeightedRandomSampler,
    get_worker_info,
)

from midstep.data.order.order_strategy import OrderConfig
from midstep.data.order.ordered_loader import OrderedLoader
from midstep.data.random_state import RandomState

LENGTH, BATCH, EPOCHS = 10, 4, 2  # two full batches and a partial one


def noise() -> list[float]:
    """One draw of each kind, to be compared bit for bit."""
    return [random.random(), float(np.random.rand()), float(torch.rand((), dtype=torch.float64))]


class Augmented(torch.utils.data.Dataset[Any]):
    """Sample i is its id and random numbers."""

    def __init__(self, length: int = LENGTH, draws: bool = True) -> None:
        self.length, self.draws = length, draws

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> list[float]:
        return [float(index), *(noise() if self.draws else ())]


class Stream(IterableDataset[Any]):
    """A sharded iterable dataset that keeps its place, and may draw."""

    def __init__(self, length: int = LENGTH, draws: bool = True) -> None:
        self.length, self.draws, self.position, self.passes = length, draws, 0, 0

    def __iter__(self) -> Iterator[list[float]]:
        info = get_worker_info()
        shards, shard = (info.num_workers, info.id) if info else (1, 0)
        mine = range(shard, self.length, shards)
        while self.position < len(mine):
            self.position += 1
            sample = [float(mine[self.position - 1]), float(self.passes)]
            yield [*sample, *(noise() if self.draws else ())]
        self.position, self.passes = 0, self.passes + 1

    def state_dict(self) -> dict[str, Any]:
        return {"position": self.position, "passes": self.passes}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.position, self.passes = state["position"], state["passes"]


class Pairs:
    """A user's batch sampler that draws with Python's and NumPy's generators, in odd sizes."""

    def __iter__(self) -> Iterator[list[int]]:
        ids = list(range(LENGTH))
        random.shuffle(ids)
        ids = [ids[at] for at in np.random.permutation(LENGTH)]
        return iter([ids[:3], ids[3:4], ids[4:8], ids[8:]])

    def __len__(self) -> int:
        return 4


def as_rows(samples: list[list[float]]) -> list[list[float]]:
    """Collate with a draw of its own."""
    return [[*sample, random.random()] for sample in samples]


def as_rows_quietly(samples: list[list[float]]) -> list[list[float]]:
    return samples


def _weights() -> list[float]:
    return [1.0 + index for index in range(LENGTH)]


Parts = Callable[[bool], dict[str, Any]]

SAMPLERS: dict[str, Parts] = {
    "random": lambda draws: {
        "dataset": Augmented(draws=draws),
        "batch_size": BATCH,
        "shuffle": True,
    },
    "own generator": lambda draws: {
        "dataset": Augmented(draws=draws),
        "batch_size": BATCH,
        "shuffle": True,
        "generator": torch.Generator().manual_seed(5),
    },
    "replacement": lambda draws: {
        "dataset": (data := Augmented(draws=draws)),
        "batch_size": BATCH,
        "sampler": RandomSampler(
            data, replacement=True, num_samples=37, generator=torch.Generator().manual_seed(3)
        ),
    },
    "weighted": lambda draws: {
        "dataset": Augmented(draws=draws),
        "batch_size": BATCH,
        "sampler": WeightedRandomSampler(_weights(), LENGTH),
        "drop_last": True,
    },
    "subset sampler": lambda draws: {
        "dataset": Augmented(draws=draws),
        "batch_size": BATCH,
        "sampler": SubsetRandomSampler([1, 2, 3, 5, 7, 8, 9]),
    },
    "subset": lambda draws: {
        "dataset": Subset(Subset(Augmented(12, draws=draws), range(1, 12)), range(LENGTH)),
        "batch_size": BATCH,
        "shuffle": True,
    },
    "batch sampler": lambda draws: {"dataset": Augmented(draws=draws), "batch_sampler": Pairs()},
    "unbatched": lambda draws: {
        "dataset": Augmented(draws=draws),
        "batch_size": None,
        "shuffle": True,
    },
    "distributed": lambda draws: {
        "dataset": (data := Augmented(draws=draws)),
        "batch_size": BATCH,
        "sampler": DistributedSampler(data, num_replicas=2, rank=1),
    },
    "iterable": lambda draws: {"dataset": Stream(draws=draws), "batch_size": BATCH},
    "iterable, unbatched": lambda draws: {"dataset": Stream(draws=draws), "batch_size": None},
    "iterable, drop last": lambda draws: {
        "dataset": Stream(draws=draws),
        "batch_size": 3,
        "drop_last": True,
    },
}


@dataclass(frozen=True, kw_only=True)
class Case:
    """One way to make a loader and to order it."""

    sampler: str = "random"
    workers: int = 0
    persistent: bool = False
    policy: str = "epoch_reseed"
    seed: int = 0
    draws: bool = True
    """Whether the dataset and the collate function draw random numbers."""

    def __str__(self) -> str:
        kept = " persistent" if self.persistent else ""
        return f"{self.sampler}, {self.workers}{kept} workers, {self.policy}"

    def with_(self, **changes: Any) -> Case:
        return replace(self, **changes)

    def loader(self) -> DataLoader[Any]:
        parts: dict[str, Any] = SAMPLERS[self.sampler](self.draws)
        if parts.get("batch_size", BATCH) is not None:
            parts["collate_fn"] = as_rows if self.draws else as_rows_quietly
        if self.persistent:
            parts["persistent_workers"] = True
        return DataLoader(**parts, num_workers=self.workers)

    @property
    def config(self) -> OrderConfig:
        return OrderConfig(policy=self.policy, seed=self.seed)  # type: ignore[arg-type]


def rows(batch: Any) -> list[list[float]]:
    """A batch as rows of floats, one per sample."""
    plain = [each.tolist() if hasattr(each, "tolist") else each for each in batch]
    return plain if plain and isinstance(plain[0], list) else [plain]


class Killable:
    """A training's view of its data over two epochs; what `assert_resumes` kills and restarts."""

    def __init__(self, case: Case, *, disturbed: bool = False) -> None:
        self.case, self.loader, self.disturbed = case, case.loader(), disturbed
        self.order = OrderedLoader(self.loader, case.config).__enter__()
        if case.policy == "user":
            seed_everything(case.seed)  # the user's own script does so at its top
        self.boundary = RandomState.take()

    def __iter__(self) -> Iterator[list[list[float]]]:
        for epoch in range(self.order.epoch, EPOCHS):
            self.order.set_epoch(epoch)
            for batch in self.loader:
                step = noise() if self.case.policy == "user" else []  # dropout, say
                yield [row + step for row in rows(batch)]
                if self.disturbed:
                    disturb()

    def state_dict(self) -> dict[str, Any]:
        state: dict[str, Any] = {"order": self.order.state_dict()}
        if self.case.policy == "user":
            state["epoch_random"] = as_text(self.order.random_state())
            state["random"] = as_text(self.boundary)
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if "random" in state:
            self.order.load_random_state(from_text(state["epoch_random"]))
            self.boundary = from_text(state["random"])
            self.boundary.restore()
        self.order.load_state_dict(state["order"])

    def commit(self, count: int | None = None) -> None:
        """The boundary: another process may seed everything before this one's state is taken."""
        self.order.commit(count)
        self.boundary = RandomState.take()

    def close(self) -> None:
        self.order.__exit__()


class Machine:
    """Runs one process after the other: starting the next ends the one before."""

    def __init__(self) -> None:
        self._stack = contextlib.ExitStack()

    def start(self, case: Case, **settings: Any) -> Killable:
        self._stack.close()
        killable = Killable(case, **settings)
        self._stack.callback(killable.close)
        return killable

    def close(self) -> None:
        self._stack.close()


def as_text(state: RandomState | None) -> str:
    """For the JSON that the checker sends states through; a run has its checkpoints for this."""
    return pickle.dumps(state).hex()


def from_text(text: str) -> RandomState:
    return pickle.loads(bytes.fromhex(text))


def commit(killable: Killable, count: int) -> None:
    killable.commit(count)


def whole(killable: Killable) -> list[Any]:
    """The uninterrupted stream."""
    found = []
    for item in killable:
        found.append(item)
        killable.commit()
    return found


def after(killable: Killable, count: int) -> dict[str, Any]:
    """The state after so many trained batches."""
    items = iter(killable)
    for _ in range(count):
        next(items)
        killable.commit()
    return killable.state_dict()


def seed_everything(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def disturb() -> None:
    """What a user's loop may do between two steps: draw, and run another shuffled loader."""
    noise()
    list(DataLoader(range(5), shuffle=True))  # type: ignore[arg-type]

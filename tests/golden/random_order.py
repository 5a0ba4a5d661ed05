"""Order and random draws that follow from named random streams, recorded as numbers.

A stream is known by its name (`order`, `sample`, `split`, …). A renamed stream changes no file, but
every later epoch, split and sample of every user.
"""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset

from midstep import Session, SessionConfig
from midstep.data import BuildConfig, build_dataset, build_triplets, create_loader, open_tables
from midstep.data.order import EpochSeededRandomSampler, Order
from midstep.data.sources.digits import load_digits
from tests.golden.golden_copy import GOLDEN
from tests.golden.trainings import digest, seed_everything

LENGTH, EPOCHS = 10, 2
TOPICS = ("ocean", "mountain", "music", "bread", "engine", "river")
WHOLE_TABLES = (
    "train_idx",
    "val_idx",
    "test_idx",
    "pair_index",
    "pair_cluster_id",
    "hard_negatives",
    "negative_tiers",
)
"""Tables of whole numbers; the others are sums of floats."""


def order_answers(folder: Path) -> dict[str, Any]:
    """Every recorded order and draw."""
    return {
        "permutations": permutations(),
        "loaders": {
            f"{policy}, {kind}": drawn_batches(policy, kind, folder)
            for policy in ("epoch_reseed", "fixed_order")
            for kind in ("map", "iterable")
        },
        "steering": fewer_negatives(),
        "built": built(folder),
        "digits": {"val": digest(load_digits("val").ids), "train": digest(load_digits().ids)},
    }


def permutations() -> dict[str, Any]:
    sampler = EpochSeededRandomSampler(range(20), base_seed=3)
    epochs = {}
    for epoch in (0, 1, 5):
        sampler.set_epoch(epoch)
        epochs[f"epoch {epoch}"] = list(sampler)
    feistel = Order(20, seed=3, epoch=1, algorithm="feistel-1")
    large = Order(5_000_000, seed=3, epoch=1)
    return {
        **epochs,
        "feistel": feistel.ids(0, 20).tolist(),
        "large": [large.algorithm, large.ids(4_000_000, 4_000_005).tolist()],
    }


# -- loaders --------------------------------------------------------------------------------------


def _draws() -> list[float]:
    """One draw of each global generator."""
    return [random.random(), float(np.random.rand()), float(torch.rand((), dtype=torch.float64))]


class Drawing(Dataset[Any]):
    """Sample i is its number and random draws."""

    def __len__(self) -> int:
        return LENGTH

    def __getitem__(self, index: int) -> list[float]:
        return [float(index), *_draws()]


class DrawingStream(IterableDataset[Any]):
    """The same as a stream that can be continued."""

    def __init__(self) -> None:
        self.position = 0

    def __iter__(self) -> Iterator[list[float]]:
        while self.position < LENGTH:
            self.position += 1
            yield [float(self.position - 1), *_draws()]
        self.position = 0

    def state_dict(self) -> dict[str, int]:
        return {"position": self.position}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.position = state["position"]


def _collate(samples: list[list[float]]) -> torch.Tensor:
    return torch.tensor([[*sample, random.random()] for sample in samples], dtype=torch.float64)


def drawn_batches(policy: str, kind: str, folder: Path) -> list[Any]:
    """Batches of a session under a seeded policy, with every random draw of their samples."""
    seed_everything(1)
    model = nn.Linear(5, 1).double()
    loader = (
        DataLoader(Drawing(), batch_size=4, shuffle=True, collate_fn=_collate)
        if kind == "map"
        else DataLoader(DrawingStream(), batch_size=4, collate_fn=_collate)
    )
    config = SessionConfig(
        save_dir=folder / "orders",
        run_name=f"{policy}-{kind}",
        seed=9,
        data_order_policy=policy,  # type: ignore[arg-type]
        rewind_steps=0,
    )
    batches: list[Any] = []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with Session(model, optimizer, None, loader, config=config) as session:

        @session.training_step
        def step(net: nn.Module, batch: torch.Tensor) -> torch.Tensor:
            batches.append(batch.tolist())
            return net(batch).square().mean()

        session.fit(epochs=EPOCHS)
    return batches


# -- datasets -------------------------------------------------------------------------------------


def fewer_negatives() -> list[Any]:
    """Batches with two of three negatives, chosen at random."""
    folder = GOLDEN / "datasets" / "memmap"
    loader = create_loader(folder, "train", 5, seed=11, distributed=False, n_neg=2)
    return [
        [
            batch["pair_id"].tolist(),
            batch["negative_tiers"].tolist(),
            digest(batch["negative_embs"]),
        ]
        for batch in loader
    ]


def built(folder: Path) -> dict[str, Any]:
    """Splits, clusters, negatives and triplets of a small table."""
    table = _write_table(folder / "table.csv")
    settings: dict[str, Any] = {
        "tables": table,
        "encoder": "hashing:16",
        "n_neg": 6,
        "n_clusters": 7,
        "seed": 3,
    }
    tables = open_tables(build_dataset(BuildConfig(out=folder / "built", **settings)))
    answers: dict[str, Any] = {name: np.asarray(tables[name]).tolist() for name in WHOLE_TABLES}
    made = build_triplets(BuildConfig(out=folder / "triplets", **settings), k=2)
    lines = (made / "val.jsonl").read_text(encoding="utf-8").splitlines()
    answers["triplets"] = [json.loads(line) for line in lines]
    return answers


def _write_table(path: Path) -> Path:
    chance = np.random.default_rng(0)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["question", "source", "relevance", "keywords"])
        for number in range(150):
            topic = TOPICS[chance.integers(len(TOPICS))]
            words = [f"{topic}{chance.integers(30)}" for _ in range(4)]
            question = f"What of {' '.join(words)} and case{number}?"
            source = f"On {topic}: {' '.join(words[:3])} with detail{number} told."
            writer.writerow([question, source, 0.5, f"{topic};{words[0]}"])
    return path

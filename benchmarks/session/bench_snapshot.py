"""How long a snapshot holds the training up, against a clone of the same tensors."""

from __future__ import annotations

import gc
import statistics
import tempfile
import time
from typing import Any

import psutil
import torch

from benchmarks.figures import Figure, alternating_ratio
from midstep.session.checkpoint.checkpoint_store import CheckpointStore
from midstep.session.state.snapshot import Snapshot

__all__ = ["figures"]

PARAMETERS = 100_000_000
WIDTH = 1024
BYTES_A_PARAMETER = 12 * 3
"""Weights and the two moments of Adam, held by the training, a snapshot and one more copy."""
MEMORY_SHARE = 0.5


class Work:
    """A deep model of square layers with Adam, after one step; smaller where memory is short."""

    def __init__(self) -> None:
        room = int(psutil.virtual_memory().available * MEMORY_SHARE / BYTES_A_PARAMETER)
        layers = max(1, min(PARAMETERS, room) // (WIDTH * WIDTH + 3 * WIDTH))
        blocks = (
            part
            for _ in range(layers)
            for part in (torch.nn.Linear(WIDTH, WIDTH), torch.nn.LayerNorm(WIDTH))
        )
        self.model = torch.nn.Sequential(*blocks)
        self.parameters = sum(each.numel() for each in self.model.parameters())
        self.optimizer = torch.optim.Adam(self.model.parameters())
        for each in self.model.parameters():
            each.grad = torch.zeros_like(each)
        self.optimizer.step()
        self.optimizer.zero_grad()

    @property
    def parts(self) -> dict[str, Any]:
        """What a snapshot is taken of."""
        return {"model": self.model, "optimizer": self.optimizer}

    def tensors(self) -> list[torch.Tensor]:
        """The same tensors that a snapshot clones."""
        moments = [
            value
            for state in self.optimizer.state.values()
            for value in state.values()
            if isinstance(value, torch.Tensor)
        ]
        return [*(each.detach() for each in self.model.parameters()), *moments]


def _clone_s(work: Work) -> float:
    tensors = work.tensors()
    begun = time.perf_counter()
    copies = [each.clone() for each in tensors]
    spent = time.perf_counter() - begun
    del copies
    return spent


def _snapshot_s(work: Work) -> float:
    parts = work.parts
    begun = time.perf_counter()
    kept = Snapshot.take(parts, step=1)
    spent = time.perf_counter() - begun
    del kept
    return spent


def blocking(work: Work, *, pairs: int = 40) -> Figure:
    """The time a snapshot takes at the boundary, as a multiple of a clone's."""
    gc.collect()
    value, low, high = alternating_ratio(
        lambda: _clone_s(work), lambda: _snapshot_s(work), pairs=pairs
    )
    return Figure(
        name="snapshot blocks training, against a clone of the same tensors",
        value=value,
        unit="×",
        low=low,
        high=high,
        bar=1.2,
        note=f"{work.parameters / 1e6:.0f} M parameters with Adam, clone {_clone_s(work):.2f} s",
    )


def small_snapshot(rounds: int = 200) -> Figure:
    """A snapshot of a small model: what does not depend on its size."""
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.zeros(1, 64)).sum().backward()
    optimizer.step()
    spent = []
    for _ in range(rounds):
        begun = time.perf_counter()
        Snapshot.take({"model": model, "optimizer": optimizer}, step=1)
        spent.append((time.perf_counter() - begun) * 1e3)
    return Figure(
        name="snapshot of 5 k parameters with Adam",
        value=statistics.median(spent),
        unit="ms",
        low=min(spent),
        high=max(spent),
    )


def checkpoint(work: Work, *, rounds: int = 3) -> list[Figure]:
    """Writing (off the training thread) and reading with every hash checked."""
    kept = Snapshot.take(work.parts, step=1)
    size = kept.bytes / 1e9
    writes, reads = [], []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(rounds):
            begun = time.perf_counter()
            CheckpointStore(folder, keep=1).save(kept)
            written = time.perf_counter()
            CheckpointStore(folder).load()
            writes.append(size / (written - begun))
            reads.append(size / (time.perf_counter() - written))
    return [
        Figure(
            name=name,
            value=statistics.median(speeds),
            unit="GB/s",
            low=min(speeds),
            high=max(speeds),
            note=f"{size:.2f} GB",
        )
        for name, speeds in (
            ("checkpoint written, hashed and synced", writes),
            ("checkpoint read and every hash checked", reads),
        )
    ]


def figures() -> list[Figure]:
    """All figures of this module."""
    work = Work()
    return [blocking(work), small_snapshot(), *checkpoint(work)]

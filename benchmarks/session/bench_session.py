"""Sessions: how soon a resume has its first batch, and what the way back costs."""

from __future__ import annotations

import statistics
import time
from typing import Any

import torch
from torch.utils.data import BatchSampler, DataLoader, Dataset, TensorDataset

from benchmarks.figures import Figure
from midstep.core.commands.catalog import BackPayload
from midstep.data.order.order_strategy import OrderConfig
from midstep.data.order.ordered_loader import OrderedLoader
from midstep.data.order.samplers import EpochSeededRandomSampler
from midstep.session.config import SessionConfig
from midstep.session.fit.trainer import Trainer, TrainerReplay
from midstep.session.rewind.back import Rewind
from midstep.session.rewind.snapshot_ring import SnapshotRing
from midstep.session.state.training_parts import TrainingParts

__all__ = ["figures"]

SAMPLES = 10**8
BATCH = 256


class Numbers(Dataset[int]):
    """So many samples that cost nothing to read: what is measured is the order alone."""

    def __len__(self) -> int:
        """All of them."""
        return SAMPLES

    def __getitem__(self, index: int) -> int:
        """The sample is its number."""
        return index


def _loader() -> DataLoader[int]:
    data = Numbers()
    sampler = BatchSampler(EpochSeededRandomSampler(data, 7), BATCH, drop_last=False)
    return DataLoader(data, batch_sampler=sampler)


def resume(rounds: int = 5) -> Figure:
    """From a saved place half-way through an epoch to its next batch, everything built anew."""
    config = OrderConfig(policy="epoch_reseed", seed=7)
    with OrderedLoader(_loader(), config) as order:
        order.seek(epoch=3, cursor=SAMPLES // 2 // BATCH * BATCH)
        state = order.state_dict()
    spent = []
    for _ in range(rounds):
        begun = time.perf_counter()
        loader = _loader()
        with OrderedLoader(loader, config) as order:
            order.load_state_dict(state)
            next(iter(loader))
        spent.append(time.perf_counter() - begun)
    return Figure(
        name="resume to the first batch, order alone",
        value=statistics.median(spent),
        unit="s",
        low=min(spent),
        high=max(spent),
        bar=1.0,
        note="10⁸ samples, in the middle of an epoch",
    )


class Work:
    """A training of a middling model with Adam, and the way back from it."""

    def __init__(self, width: int = 512) -> None:
        blocks = [torch.nn.Linear(width, width) for _ in range(6)]
        model = torch.nn.Sequential(*blocks)
        data = TensorDataset(torch.rand(4096, width), torch.rand(4096, width))
        parts = TrainingParts(
            model=model,
            optimizers=[torch.optim.Adam(model.parameters())],
            loss_fn=torch.nn.MSELoss(),
            train_loader=DataLoader(data, batch_size=64),
        )
        self.training = Trainer(parts, SessionConfig())
        self.ring = SnapshotRing(1 << 30, 64)
        self.rewinder = Rewind(
            self.training.state,
            self.ring,
            TrainerReplay(self.training),
            moved=lambda *_, **__: None,
            show_phase=lambda _: None,
        )
        self.parameters = sum(each.numel() for each in model.parameters())

    def boundary(self) -> None:
        """As a session does after each step."""
        if self.ring.is_due(self.training.step):
            self.rewinder.take_snapshot()

    def train(self, seconds: float) -> tuple[float, list[float]]:
        """Steps for so long; the time of them all, and of each boundary."""
        begun, boundaries = time.perf_counter(), []
        while time.perf_counter() - begun < seconds:
            self.training.advance()
            at = time.perf_counter()
            self.boundary()
            boundaries.append(time.perf_counter() - at)
        return time.perf_counter() - begun, boundaries


def ring(seconds: float = 30.0) -> list[Figure]:
    """What keeping a way back takes of the training's time, and what going back takes."""
    work = Work()
    with work.training:
        work.boundary()  # the first is taken before the first step
        whole_s, boundaries = work.train(seconds)
        share = sum(boundaries) / whole_s
        idle = statistics.median(boundaries)
        note = f"{work.parameters / 1e6:.1f} M parameters with Adam, {len(boundaries)} steps"
        return [
            Figure(
                name="snapshots of the ring, share of the training's time",
                value=100 * share,
                unit="%",
                bar=1.0,
                note=f"{note}, snapshots at {work.ring.snapshot_steps}",
            ),
            Figure(name="a boundary without a snapshot", value=1e6 * idle, unit="µs", note=note),
            _back(work),
        ]


def _back(work: Work, rounds: int = 8) -> Figure:
    """One step back, wherever the snapshots are."""
    spent = []
    for _ in range(rounds):
        work.training.advance()
        work.boundary()
        begun = time.perf_counter()
        _finish(work.rewinder.back(BackPayload(n=1)))
        spent.append(time.perf_counter() - begun)
    told = work.ring.replay_cost_s(work.training.step)
    return Figure(
        name="one step back",
        value=statistics.median(spent),
        unit="s",
        low=min(spent),
        high=max(spent),
        note=f"at most about {told or 0:.2g} s foretold for the steps to repeat",
    )


def _finish(slices: Any) -> None:
    for _ in slices:
        pass


def figures() -> list[Figure]:
    """All of them."""
    return [resume(), *ring()]

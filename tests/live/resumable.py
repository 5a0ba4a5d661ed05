"""A plain loop under `attach` that uses every kind of state, for tests that interrupt it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from midstep.live import AttachedRun, attach

EPOCHS, STEPS = 3, 18


class Shifted(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Twenty-two samples; `draws` says whether reading one draws a random number."""

    def __init__(self, *, draws: bool) -> None:
        self.data = torch.randn(22, 4, generator=torch.Generator().manual_seed(3))
        self.draws = draws

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        noise = torch.rand(4) if self.draws else torch.zeros(4)
        return self.data[index] + noise, torch.tensor(index)


class Resumable:
    """Dropout, momentum, a scheduler per step and one per epoch, a partial last batch."""

    def __init__(self, save_dir: Path, *, policy: str = "user", **loader: Any) -> None:
        torch.manual_seed(11)
        layers = nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 1)
        self.model = nn.Sequential(*layers)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-2)
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, step_size=2, gamma=0.9)
        draws = policy != "user" or not loader.get("num_workers")
        self.loader = DataLoader(Shifted(draws=draws), batch_size=4, shuffle=True, **loader)
        self.save_dir, self.policy = save_dir, policy
        self.seen: list[tuple[int, list[int], str]] = []

    def attach(self, **settings: Any) -> AttachedRun:
        """As the user's script does it, the same each time."""
        return attach(
            self.model,
            self.optimizer,
            self.loader,
            scheduler=self.scheduler,
            save_dir=self.save_dir,
            data_order_policy=self.policy,
            seed=None if self.policy == "user" else 5,
            **{"run_name": "run", "resume": "auto"} | settings,
        )

    def train(
        self, run: AttachedRun, told: Callable[[Any], object] = lambda _: None, epochs: int = EPOCHS
    ) -> None:
        """The loop."""
        for _epoch in run.epochs(epochs):
            for x, ids in self.loader:
                loss = self.model(x).square().mean()
                loss.backward()
                self.optimizer.step()
                self.optimizer.zero_grad()
                run.log(loss=loss)
                self.seen.append((run.step + 1, ids.tolist(), float(loss.detach()).hex()))
                told(self.seen[-1])
            torch.rand(3)  # a validation that draws
            self.scheduler.step()

    def end_workers(self) -> None:
        """Persistent ones would live as long as the loader does."""
        if self.loader._iterator is not None:
            self.loader._iterator._shutdown_workers()

    def digest(self, *, generator: bool = True) -> str:
        """Weights, buffers, optimizer, scheduler and generator in one."""
        hashed = hashlib.blake2b()
        for value in self.model.state_dict().values():
            hashed.update(value.numpy().tobytes())
        for state in self.optimizer.state_dict()["state"].values():
            for value in state.values():
                hashed.update(value.numpy().tobytes())
        hashed.update(repr(self.optimizer.param_groups[0]["lr"]).encode())
        if generator:
            hashed.update(torch.get_rng_state().numpy().tobytes())
        return hashed.hexdigest()

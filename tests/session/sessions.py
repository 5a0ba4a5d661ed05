"""Small sessions with every kind of randomness, over any loader of `tests.data.order.loaders`."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import nn
from torch.optim import lr_scheduler as schedulers

from midstep.session import Session, SessionConfig
from tests.data.order.loaders import Case, rows, seed_everything

WIDTH = 5
"""A sample's id, three random numbers and one of the collate function."""


class Net(nn.Module):
    """Dropout and batch norm, so that generators and buffers matter."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(WIDTH, 6), nn.ReLU(), nn.Dropout(0.3))
        self.norm = nn.BatchNorm1d(6)
        self.head = nn.Linear(6, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made = self.layers(x)
        return self.head(self.norm(made) if len(made) > 1 else made)


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A session to build anew, as a script that is started again builds it."""

    case: Case = field(default_factory=Case)
    scheduler: str = "step"
    settings: dict[str, Any] = field(default_factory=dict)
    poison: tuple[int, ...] = ()
    """Sample ids of which the first epoch's loss is not a number."""
    validate: bool = False

    def __str__(self) -> str:
        told = ", ".join(f"{name} {value}" for name, value in self.settings.items())
        poison = f", {len(self.poison)} poisoned" if self.poison else ""
        return f"{self.case}, {self.scheduler}{', ' + told if told else ''}{poison}"

    def with_workers(self, workers: int, *, persistent: bool = False) -> Recipe:
        return replace(self, case=self.case.with_(workers=workers, persistent=persistent))

    def __call__(self, settings: dict[str, Any]) -> Session:
        seed_everything(3)
        model = Net()
        optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
        config = SessionConfig(
            **{
                "seed": self.case.seed if self.case.config.seeded else None,
                "data_order_policy": self.case.policy,
                **self.settings,
                **settings,
            }
        )
        session = Session(
            model,
            optimizer,
            None,
            self.case.loader(),
            self.case.with_(workers=0, persistent=False).loader() if self.validate else None,
            scheduler=SCHEDULERS[self.scheduler](optimizer),
            config=config,
        )

        @session.training_step
        def step(net: nn.Module, batch: Any) -> torch.Tensor:
            found = rows(batch)
            x = torch.zeros(len(found), WIDTH)
            for row, values in enumerate(found):
                x[row, : len(values)] = torch.tensor(values[:WIDTH], dtype=torch.float32)
            loss = net(x.to(session.trainer.device) / 10).square().mean()
            hit = session.trainer.epoch == 0 and any(int(row[0]) in self.poison for row in found)
            return loss * torch.nan if hit and net.training else loss

        return session


SCHEDULERS: dict[str, Any] = {
    "none": lambda _optimizer: None,
    "step": lambda o: schedulers.StepLR(o, 1, gamma=0.8),
    "one cycle": lambda o: schedulers.OneCycleLR(o, max_lr=0.1, total_steps=100),
    "plateau": lambda o: schedulers.ReduceLROnPlateau(o, patience=0, factor=0.5),
}

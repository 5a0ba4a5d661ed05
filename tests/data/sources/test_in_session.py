"""A session that trains on a source resumes after a kill, under each order policy."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import h5py
import pytest
import torch
from torch import Tensor, nn

from midstep.core import set_all_seeds
from midstep.data.sources import DataConfig, make_dataloaders
from midstep.data.sources.synthetic import generate_events
from midstep.session import Session, SessionConfig
from tests.checkers.resume import assert_session_resumes


def write_events(path: Path) -> str:
    with h5py.File(path, "w") as file:
        for split in ("train", "val", "test"):
            for name, table in generate_events(1, "train", 24).items():
                file[f"{split}/{name}"] = table
    return str(path)


def reconstruct(model: Any, batch: dict[str, Tensor]) -> Tensor:
    values = batch["tokens_cont"].flatten(1)
    return (model(values) - values).square().mean()


@pytest.mark.parametrize(("source", "policy"), [("synthetic", "user"), ("h5", "epoch_reseed")])
def test_a_session_on_a_source_resumes(
    source: str, policy: Literal["user", "epoch_reseed"], tmp_path: Path
) -> None:
    path = write_events(tmp_path / "events.h5") if source == "h5" else None
    data = DataConfig(name=source, path=path, n_events=30, batch_size=6)

    def make(settings: dict[str, Any]) -> Session:
        set_all_seeds(3)
        train, val, _, _ = make_dataloaders(data, seed=3)
        model = nn.Linear(72, 72)
        session = Session(
            model,
            torch.optim.Adam(model.parameters(), lr=0.01),
            None,
            train,
            val,
            config=SessionConfig(seed=3, data_order_policy=policy, **settings),
        )
        session.training_step(reconstruct)
        return session

    assert_session_resumes(make, tmp_path, kills=[5], steps=7)

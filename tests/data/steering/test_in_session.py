"""A steering loader under a session and under `attach`, with kills."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader

import midstep
from midstep.data import (
    ClusterLabeledDataset,
    ClusterSamples,
    create_loader,
    write_cluster_dataset,
)
from midstep.session import Session, SessionConfig
from tests.checkers.resume import assert_session_resumes


def make_session(folder: Path, settings: dict[str, Any], workers: int = 0) -> Session:
    torch.manual_seed(0)
    model = nn.Linear(6, 6)
    loader = create_loader(folder, "train", 12, n_neg=2, num_workers=workers)
    session = Session(
        model,
        torch.optim.SGD(model.parameters(), lr=0.1),
        nn.MSELoss(),
        loader,
        config=SessionConfig(seed=4, data_order_policy="epoch_reseed", **settings),
    )

    @session.training_step
    def step(model: nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        moved = model(batch["question_emb"] + batch["steering"])
        wrong = (moved[:, None] * batch["negative_embs"]).sum(-1).mean()
        return wrong + ((moved - batch["target_source_emb"]) ** 2).mean()

    return session


def test_session_resumes_with_any_number_of_workers(folder: Path, tmp_path: Path) -> None:
    trace = assert_session_resumes(
        lambda settings: make_session(folder, settings),
        tmp_path,
        kills=[
            (lambda settings: make_session(folder, settings), 3),
            (lambda settings: make_session(folder, settings, workers=1), 6),
        ],
        steps=10,
    )
    assert trace.ids[1] != trace.ids[5]  # another order in the next epoch


def test_session_on_cluster_labels_resumes(tmp_path: Path) -> None:
    chance = np.random.default_rng(0)
    clusters = write_cluster_dataset(
        tmp_path / "clusters",
        ClusterSamples(
            base_embeddings=chance.standard_normal((30, 6)),
            steering_embeddings=chance.standard_normal((30, 6)),
            centroids=chance.standard_normal((3, 6)),
        ),
    )

    def make(settings: dict[str, Any]) -> Session:
        torch.manual_seed(0)
        model, dataset = nn.Linear(6, 3), ClusterLabeledDataset(clusters)
        session = Session(
            model,
            torch.optim.SGD(model.parameters(), lr=0.1),
            nn.CrossEntropyLoss(),
            DataLoader(dataset, batch_size=8, shuffle=True, collate_fn=dataset.collate),
            config=SessionConfig(seed=4, data_order_policy="epoch_reseed", **settings),
        )

        @session.training_step
        def step(model: nn.Module, batch: tuple[torch.Tensor, ...]) -> torch.Tensor:
            return nn.functional.cross_entropy(model(batch[0] + batch[1]), batch[2])

        return session

    trace = assert_session_resumes(make, tmp_path / "runs", kills=[(make, 3)], steps=6)
    assert sorted(each for step in range(1, 5) for each in trace.ids[step]) == list(range(30))


def test_attached_loop_sees_the_loaders_own_batches(folder: Path, tmp_path: Path) -> None:
    model = nn.Linear(6, 6)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = create_loader(folder, "train", 12)
    expected = [batch["pair_id"].tolist() for batch in loader]
    loader.set_epoch(0)
    seen = []
    with midstep.attach(model, optimizer, loader, save_dir=tmp_path) as run:
        for batch in loader:
            optimizer.zero_grad()
            loss = model(batch["question_emb"]).pow(2).mean()
            loss.backward()
            optimizer.step()
            run.log(loss=loss.item())
            seen.append(batch["pair_id"].tolist())
    assert seen == expected

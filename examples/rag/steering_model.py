"""A small model that moves a question toward its source, and how well it retrieves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

import midstep
from midstep.data import (
    JASPERSteeringDataset,
    Tables,
    create_loader,
    open_tables,
    ranks_of_relevant,
    retrieval_metrics,
)

SCHEDULES = ("linear_zero", "distance_gated", "bands")
TEMPERATURE = 0.05
CUTOFFS = (1, 5, 10)
VARIANTS = ("zero", "centroid", "keyword", "residual")
RATES = (1e-4, 3e-4, 1e-3)
"""Learning rates to choose from."""


class SteeringModel(nn.Module):
    """unit(A · question + B · steering): A begins as identity and B as zero, so it moves nothing.

    An MLP on both retrieved worse than this on the validation split of BoolQ, hashing encoder.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.question = nn.Linear(width, width, bias=False)
        self.steering = nn.Linear(width, width, bias=False)
        nn.init.eye_(self.question.weight)
        nn.init.zeros_(self.steering.weight)

    def forward(self, question: torch.Tensor, steering: torch.Tensor) -> torch.Tensor:
        """The moved question."""
        return functional.normalize(self.question(question) + self.steering(steering), dim=-1)


def contrastive_loss(moved: torch.Tensor, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    """InfoNCE (van den Oord et al. 2018): the source against the pair's hard negatives."""
    source = functional.normalize(batch["target_source_emb"], dim=-1)
    negatives = functional.normalize(batch["negative_embs"], dim=-1)
    right = (moved * source).sum(dim=-1, keepdim=True)
    wrong = torch.einsum("bd,bnd->bn", moved, negatives)
    logits = torch.cat([right, wrong], dim=1) / TEMPERATURE
    return functional.cross_entropy(logits, torch.zeros(len(logits), dtype=torch.int64))


def rates_on_validation(
    dataset_dir: Path, epochs: int, out: Path, *, page: bool
) -> dict[float, float]:
    """The MRR that each learning rate reaches on the validation split; the test is left alone."""
    tables = open_tables(dataset_dir)
    val = JASPERSteeringDataset(dataset_dir, "val", force_steering="keyword")
    models = {
        rate: train(dataset_dir, SCHEDULES[0], epochs, out, rate=rate, page=page) for rate in RATES
    }
    return {rate: among_all(model, val, tables)["mrr"] for rate, model in models.items()}


def train(
    dataset_dir: Path, schedule: str, epochs: int, out: Path, *, rate: float, page: bool
) -> SteeringModel:
    """Train under a session, so that it can be paused, looked into, taken back, killed, resumed."""
    torch.manual_seed(0)
    # Its schedule is that of a hundred epochs; a shorter training takes it at a quicker pace.
    dataset = JASPERSteeringDataset(dataset_dir, "train", curriculum=_paced(schedule, epochs))
    loader = create_loader(dataset, "train", batch_size=min(256, max(16, len(dataset) // 8)))
    model = SteeringModel(dataset.config.embedding_dim)
    session = midstep.Session(
        model,
        torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.01),
        nn.CrossEntropyLoss(),
        loader,
        config=midstep.SessionConfig(
            # The epochs are in it because the pace of the schedule depends on them.
            run_name=f"steering-{schedule}-{epochs}-{rate:g}",
            save_dir=out,
            seed=0,
            resume="auto",
            data_order_policy="epoch_reseed",
            checkpoint_epochs=False,
        ),
    )

    @session.training_step
    def step(model: nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        return contrastive_loss(model(batch["question_emb"], batch["steering"]), batch)

    with session:
        if page:
            with midstep.serve(session) as served:
                print(f"training {schedule} at {served.url}")
                session.fit(epochs=epochs)
        else:
            session.fit(epochs=epochs)
    return model.eval()


def _paced(schedule: str, epochs: int) -> dict[str, Any]:
    if schedule == "linear_zero":
        return {"name": schedule, "epochs": max(1, epochs)}
    if schedule == "bands":
        return {"name": schedule, "epochs": max(1, epochs // 5)}
    return {"name": schedule, "mode": "linear", "warm_up": max(1, epochs // 10)}


# -- how well it retrieves -------------------------------------------------------------------------


@torch.inference_mode()
def moved_questions(
    model: SteeringModel | None, dataset: JASPERSteeringDataset
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """All questions of a split, moved (or as they are, without a model), and their batch."""
    batch = dataset.batch(np.arange(len(dataset)))
    if model is None:
        return functional.normalize(batch["question_emb"], dim=-1), batch
    return model(batch["question_emb"], batch["steering"]), batch


@torch.inference_mode()
def among_all(
    model: SteeringModel | None, dataset: JASPERSteeringDataset, tables: Tables
) -> dict[str, float]:
    """Metrics over all sources of the dataset; every positive of a question counts as right."""
    moved, batch = moved_questions(model, dataset)
    sources = functional.normalize(torch.from_numpy(np.array(tables["source_embs"], np.float32)))
    positives: dict[int, list[int]] = {}
    for question, source in tables["pair_index"].tolist():
        positives.setdefault(question, []).append(source)
    questions = tables["pair_index"][batch["pair_id"].numpy(), 0].tolist()
    ranks = []
    for start in range(0, len(moved), 256):
        scores = (moved[start : start + 256] @ sources.T).numpy()
        relevant = np.zeros(scores.shape, dtype=bool)
        for row, question in enumerate(questions[start : start + 256]):
            relevant[row, positives[question]] = True
        ranks += ranks_of_relevant(scores, relevant)
    return retrieval_metrics(ranks, CUTOFFS)


@torch.inference_mode()
def by_tier(
    model: SteeringModel | None, dataset: JASPERSteeringDataset
) -> dict[str, dict[str, float]]:
    """Metrics of the true source against the pair's negatives of one tier."""
    moved, batch = moved_questions(model, dataset)
    source = functional.normalize(batch["target_source_emb"], dim=-1)
    negatives = functional.normalize(batch["negative_embs"], dim=-1)
    right = (moved * source).sum(dim=-1).numpy()
    wrong = torch.einsum("bd,bnd->bn", moved, negatives).numpy()
    tiers, made = batch["negative_tiers"].numpy(), {}
    for tier in (1, 2, 3, 4):
        rows = np.flatnonzero((tiers == tier).any(axis=1))
        if len(rows):
            lower = (tiers[rows] == tier) & (wrong[rows] >= right[rows, None])
            ranks = [np.array([1 + count]) for count in lower.sum(axis=1)]
            made[str(tier)] = retrieval_metrics(ranks, (1, 5))
    return made

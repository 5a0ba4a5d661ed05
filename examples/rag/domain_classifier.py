"""A classifier of domains on the cluster-labelled set of the same texts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader

import midstep
from midstep.data import (
    ClusterLabeledDataset,
    ClusterSamples,
    Ragged,
    open_tables,
    write_cluster_dataset,
)


def write_domains(steering_dir: Path, folder: Path) -> dict[str, Path]:
    """From a steering dataset, one cluster-labelled set a split.

    A sample is a pair: its source is what is classified, its keywords are the suggestion terms, its
    keyword vector steers, the clusters are the dataset's own.
    """
    tables, made = open_tables(steering_dir), {}
    folder.mkdir(parents=True, exist_ok=True)
    for split in ("train", "test"):
        rows = tables[f"{split}_idx"]
        keywords: Ragged = tables["pair_keyword_ids"]
        samples = ClusterSamples(
            base_embeddings=tables["source_embs"][tables["pair_index"][rows, 1]],
            steering_embeddings=tables["steering_keyword_weighted"][rows],
            centroids=tables["centroid_embs"],
            suggestion_embeddings=tables["keyword_embs"],
            suggestions=[keywords[row].tolist() for row in rows.tolist()],
            metadata=[{"pair": row} for row in rows.tolist()],
        )
        made[split] = folder / split
        if not made[split].exists():
            write_cluster_dataset(made[split], samples)
    return made


def train_domains(folders: dict[str, Path], epochs: int, out: Path) -> dict[str, float]:
    """Train under a session; accuracy on the test split, beside two floors."""
    torch.manual_seed(0)
    train, test = (ClusterLabeledDataset(folders[split]) for split in ("train", "test"))
    model = nn.Sequential(
        nn.Linear(train.embedding_dim, 128), nn.GELU(), nn.Linear(128, train.n_clusters)
    )
    size = min(256, max(16, len(train) // 8))
    session = midstep.Session(
        model,
        torch.optim.AdamW(model.parameters(), lr=3e-3),
        nn.CrossEntropyLoss(),
        DataLoader(train, batch_size=size, shuffle=True, collate_fn=train.collate),
        config=midstep.SessionConfig(
            run_name=f"domains-{epochs}",
            save_dir=out,
            seed=0,
            resume="auto",
            data_order_policy="epoch_reseed",
            checkpoint_epochs=False,
        ),
    )

    @session.training_step
    def step(model: nn.Module, batch: tuple[torch.Tensor, ...]) -> torch.Tensor:
        base, _, label = batch
        return functional.cross_entropy(model(base), label)

    with session:
        session.fit(epochs=epochs)
    return _measured(model.eval(), train, test)


@torch.inference_mode()
def _measured(
    model: nn.Module, train: ClusterLabeledDataset, test: ClusterLabeledDataset
) -> dict[str, float]:
    base, _, label = test.batch(range(len(test)))
    logits, best = model(base), label.argmax(dim=1)
    nearest = functional.normalize(base) @ functional.normalize(torch.tensor(train.centroids)).T
    commonest = np.bincount(train.labels.argmax(dim=1).numpy(), minlength=train.n_clusters).argmax()
    entropy = -(label * label.clamp(min=1e-12).log()).sum(dim=1).mean()
    return {
        "accuracy": float((logits.argmax(dim=1) == best).float().mean()),
        "accuracy of the nearest centroid": float((nearest.argmax(dim=1) == best).float().mean()),
        "accuracy of the commonest cluster": float((best == commonest).float().mean()),
        "divergence from the label (nats)": float(
            functional.cross_entropy(logits, label) - entropy
        ),
        "clusters": float(train.n_clusters),
    }

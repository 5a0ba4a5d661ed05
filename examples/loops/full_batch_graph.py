"""A graph convolution on one whole graph: every step trains on all nodes.

python examples/loops/full_batch_graph.py
"""

from __future__ import annotations

import os

import torch
from torch import nn

import midstep

STEPS = int(os.environ.get("STEPS", "40"))
NODES, CLASSES = 60, 3


def make_graph() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Three groups of nodes with more edges inside than between; features, labels, adjacency."""
    labels = torch.arange(NODES) % CLASSES
    same = labels[:, None] == labels[None, :]
    edges = (torch.rand(NODES, NODES) < torch.where(same, 0.3, 0.03)).float()
    adjacency = ((edges + edges.T) > 0).float() + torch.eye(NODES)
    degree = adjacency.sum(1).rsqrt()
    return torch.randn(NODES, 8), labels, degree[:, None] * adjacency * degree[None, :]


class GraphConvolution(nn.Module):
    """Two layers that mix each node with its neighbours."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 16), nn.Linear(16, CLASSES)

    def forward(self, features: torch.Tensor, adjacency: torch.Tensor) -> torch.Tensor:
        """Logits of each node."""
        hidden = torch.relu(adjacency @ self.first(features))
        return adjacency @ self.second(nn.functional.dropout(hidden, 0.5, self.training))


def main() -> None:
    torch.manual_seed(0)
    features, labels, adjacency = make_graph()
    known = torch.arange(NODES) < NODES // 2
    model = GraphConvolution()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    with midstep.attach(model, optimizer, run_name="graph", resume="auto") as run:
        k = run.keep(patience=0, best=float("inf"))
        for _step in run.steps(STEPS):
            model.train()
            logits = model(features, adjacency)
            loss = nn.functional.cross_entropy(logits[known], labels[known])
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            model.eval()
            with torch.no_grad():
                logits = model(features, adjacency)
                val_loss = nn.functional.cross_entropy(logits[~known], labels[~known]).item()
            k.patience = 0 if val_loss < k.best else k.patience + 1
            k.best = min(k.best, val_loss)
            run.log(loss=loss, val_loss=val_loss)
            if k.patience == 20:
                break
        print(f"{run.step} steps, best validation loss {k.best:.3f}")


if __name__ == "__main__":
    main()

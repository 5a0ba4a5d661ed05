"""Small trainings that use every kind of randomness: order, dropout, augmentation, batch norm."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from tests.checkers.neutral import Training

__all__ = ["conv_net", "net_with_loss", "small_transformer"]


class Images(Dataset[tuple[torch.Tensor, int, int]]):
    """Noisy squares in one of four corners, shifted at random each time they are read."""

    def __init__(self, count: int = 40) -> None:
        made = torch.Generator().manual_seed(1)
        self.labels = torch.randint(4, (count,), generator=made)
        self.images = torch.rand(count, 1, 8, 8, generator=made)
        for image, label in zip(self.images, self.labels.tolist(), strict=True):
            image[0, label // 2 * 4 :, label % 2 * 4 :] += 1.0

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int, int]:
        shift = int(torch.randint(-1, 2, ()))
        return self.images[index].roll(shift, dims=-1), int(self.labels[index]), index


def conv_net(**loader: Any) -> Training:
    """A convolutional net with batch norm and dropout, Adam, and a random order."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.Dropout(0.3),
        nn.Flatten(),
        nn.Linear(144, 4),
    )
    return Training(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=1e-2),
        loader=DataLoader(Images(), batch_size=8, shuffle=True, **loader),
        loss=lambda net, batch: nn.functional.cross_entropy(net(batch[0]), batch[1]),
        ids=lambda batch: batch[2].tolist(),
    )


class StatefulLoss(nn.Module):
    """Weights each sample by how its loss compares with a running mean, with some noise."""

    mean: torch.Tensor
    calls: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.ones(()))
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        losses = nn.functional.cross_entropy(output, target, reduction="none")
        losses = losses * (losses.detach() / self.mean).clamp(0.5, 2) * (1 + torch.rand(()) / 10)
        self.mean.lerp_(losses.detach().mean(), 0.1)
        self.calls += 1
        return losses.mean()


def net_with_loss() -> Training:
    """The same net with a loss that has buffers and draws random numbers."""
    training, criterion = conv_net(), StatefulLoss()
    training.criterion = criterion
    training.loss = lambda net, batch: criterion(net(batch[0]), batch[1])
    return training


class Sequences(Dataset[dict[str, torch.Tensor]]):
    """Counting upwards from anywhere, modulo eleven."""

    def __len__(self) -> int:
        return 36

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"tokens": (torch.arange(9) + index) % 11, "id": torch.tensor(index)}


class CausalTransformer(nn.Module):
    """Two layers that predict the next token."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(11, 16)
        layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.2, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(16, 11)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Logits of the next token, [batch, length, 11]."""
        mask = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1])
        logits: torch.Tensor = self.head(self.layers(self.embedding(tokens), mask=mask))
        return logits


def small_transformer(**loader: Any) -> Training:
    """A causal transformer with dropout, AdamW, dict batches and a generator of its own."""
    torch.manual_seed(0)
    model = CausalTransformer()
    generator = torch.Generator().manual_seed(3)
    return Training(
        model=model,
        optimizer=torch.optim.AdamW(model.parameters(), lr=1e-2),
        loader=DataLoader(Sequences(), batch_size=8, shuffle=True, generator=generator, **loader),
        loss=_next_token_loss,
        ids=lambda batch: batch["id"].tolist(),
    )


def _next_token_loss(model: nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    tokens = batch["tokens"]
    logits = model(tokens[:, :-1])
    return nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())

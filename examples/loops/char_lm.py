"""A small character model with `get_batch`, gradient accumulation and its own rate schedule.

The loop has no loader and no epochs, like many scripts that train a language model:

    python examples/loops/char_lm.py

Start it again after a kill: it continues at the step of its last checkpoint, bit for bit.
"""

from __future__ import annotations

import math
import os

import torch
from torch import nn

import midstep

TEXT = "the quick brown fox jumps over the lazy dog and runs into the deep dark wood. " * 20
STEPS = int(os.environ.get("STEPS", "60"))
BLOCK, BATCH, ACCUMULATE, RATE = 16, 8, 2, 3e-3

chars = sorted(set(TEXT))
data = torch.tensor([chars.index(char) for char in TEXT])


def get_batch() -> tuple[torch.Tensor, torch.Tensor]:
    """Pieces of the text at random positions, and the same pieces one character later."""
    starts = torch.randint(len(data) - BLOCK - 1, (BATCH,))
    x = torch.stack([data[i : i + BLOCK] for i in starts])
    y = torch.stack([data[i + 1 : i + BLOCK + 1] for i in starts])
    return x, y


class CharModel(nn.Module):
    """Embedding, a recurrent layer with dropout, and logits of the next character."""

    def __init__(self, vocabulary: int, width: int = 24) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.recurrent = nn.GRU(width, width, batch_first=True)
        self.dropout = nn.Dropout(0.1)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits, [batch, time, vocabulary]."""
        return self.head(self.dropout(self.recurrent(self.embedding(x))[0]))


def rate_at(step: int) -> float:
    """Warm-up, then a cosine."""
    if step < 10:
        return RATE * (step + 1) / 10
    return RATE * (0.1 + 0.45 * (1 + math.cos(math.pi * min(1.0, step / STEPS))))


def main() -> None:
    torch.manual_seed(1337)
    model = CharModel(len(chars))
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE)
    settings = {"block": BLOCK, "accumulate": ACCUMULATE, "steps": STEPS}
    with midstep.attach(
        model, optimizer, config=settings, run_name="char_lm", resume="auto"
    ) as run:
        k = run.keep(best=math.inf)
        for step in run.steps(STEPS):
            for group in optimizer.param_groups:
                group["lr"] = rate_at(step)
            total = 0.0
            for _ in range(ACCUMULATE):
                x, y = run.batch(*get_batch())
                logits = model(x)
                loss = nn.functional.cross_entropy(logits.flatten(0, 1), y.flatten()) / ACCUMULATE
                loss.backward()
                total += loss.item()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            k.best = min(k.best, total)
            run.log(loss=total, best=k.best)
        print(f"{run.step} steps, best loss {k.best:.3f}")


if __name__ == "__main__":
    main()

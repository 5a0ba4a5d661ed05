"""A loop of your own, made stoppable with two calls.

    python examples/plain_loop.py            # then open the link it prints
    STEPS=100 python examples/plain_loop.py

`capture_batch` stands after `backward()`, `wait_if_paused` after `optimizer.step()`. Nothing else
changes: pausing, stepping and looking leave every batch, loss and weight as it would have been.
"""

from __future__ import annotations

import os

import torch
from torch import nn

import midstep

STEPS = int(os.environ.get("STEPS", "20000"))
BATCH = 64


def draw_shapes(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Noisy bars, crosses and frames, 16 × 16, with the shape's number as label."""
    labels = torch.arange(count) % 4
    images = torch.rand(count, 1, 16, 16) * 0.4
    for image, label in zip(images, labels.tolist(), strict=True):
        row, column = torch.randint(4, 12, (2,)).tolist()
        if label in (0, 2):
            image[0, row] += 0.6
        if label in (1, 2):
            image[0, :, column] += 0.6
        if label == 3:
            image[0, [2, -3], 2:-2] += 0.6
            image[0, 2:-2, [2, -3]] += 0.6
    return images.clamp(0, 1), labels


def main() -> None:
    torch.manual_seed(0)
    images, labels = draw_shapes(4096)
    model = nn.Sequential(nn.Flatten(), nn.Linear(256, 64), nn.ReLU(), nn.Linear(64, 4))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    controller = midstep.DebugController()
    with midstep.serve(controller, name="plain-loop") as page:
        if page.url is not None:  # None where MIDSTEP_MODE is record or off
            print(f"training at {page.url}, kept in {page.run.dir}")
        controller.status.describe(total_steps=STEPS)
        for step in range(STEPS):
            ids = torch.randint(len(images), (BATCH,))
            x, y = images[ids], labels[ids]
            losses = nn.functional.cross_entropy(model(x), y, reduction="none")
            loss = losses.mean()

            optimizer.zero_grad()
            loss.backward()
            controller.capture_batch(x, loss, step, labels=y, sample_ids=ids, losses=losses)
            optimizer.step()
            if not controller.wait_if_paused():
                break

    print(f"{step + 1} steps, last loss {loss.item():.4f}")


if __name__ == "__main__":
    main()

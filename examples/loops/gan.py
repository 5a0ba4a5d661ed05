"""A GAN with two networks and two optimizers, without a loader.

    python examples/loops/gan.py

The first optimizer is the clock: one iteration of the loop is one step of the run.
"""

from __future__ import annotations

import os

import torch
from torch import nn

import midstep

STEPS = int(os.environ.get("STEPS", "40"))
BATCH, NOISE = 32, 4


def real_points() -> torch.Tensor:
    """Points on a circle."""
    angle = 6.2832 * torch.rand(BATCH)
    return torch.stack([angle.cos(), angle.sin()], 1) + 0.05 * torch.randn(BATCH, 2)


def main() -> None:
    torch.manual_seed(0)
    discriminator = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
    generator = nn.Sequential(nn.Linear(NOISE, 16), nn.ReLU(), nn.Linear(16, 2))
    train_d = torch.optim.Adam(discriminator.parameters(), lr=2e-3, betas=(0.5, 0.999))
    train_g = torch.optim.Adam(generator.parameters(), lr=1e-3, betas=(0.5, 0.999))
    nets = {"D": discriminator, "G": generator}
    optimizers = {"D": train_d, "G": train_g}
    judge = nn.functional.binary_cross_entropy_with_logits
    ones, zeros = torch.ones(BATCH, 1), torch.zeros(BATCH, 1)
    with midstep.attach(nets, optimizers, run_name="gan", resume="auto") as run:
        for _step in run.steps(STEPS):
            real = run.batch(real_points())
            fake = generator(torch.randn(BATCH, NOISE))
            loss_d = judge(discriminator(real), ones) + judge(discriminator(fake.detach()), zeros)
            train_d.zero_grad()
            loss_d.backward()
            train_d.step()
            loss_g = judge(discriminator(fake), ones)
            train_g.zero_grad()
            loss_g.backward()
            train_g.step()
            run.log(loss=loss_d, loss_g=loss_g)
        print(f"{run.step} steps")


if __name__ == "__main__":
    main()

"""A training on small images as a user would write it, with prints, that ends in one of many ways.

As a script: the folder of the run, then how it ends.
"""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from midstep.control import DebugController
from midstep.live import AttachedRun, attach

STEPS_OF_A_PASS = 6
STOP = 4
"""The step of the breakpoint."""


class Images:
    """24 images of 8 × 8, in order; the label of image i is i % 3."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        images = torch.rand(24, 1, 8, 8)
        labels = torch.arange(24) % 3
        self.model = nn.Sequential(nn.Flatten(), nn.Linear(64, 3))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.loader = DataLoader(TensorDataset(images, labels), batch_size=4)
        self.loss = nn.CrossEntropyLoss()

    def attach(self, folder: Path, name: str, **settings: Any) -> AttachedRun:
        """Attached as `name`, with a breakpoint."""
        control = DebugController()
        control.add_breakpoint("step", step=STOP)
        control.add_breakpoint("loss_z", limit=50.0)
        settings = {"save_dir": folder, "run_name": name, "name": name, **settings}
        return attach(
            self.model,
            self.optimizer,
            self.loader,
            loss_fn=self.loss,
            controller=control,
            on_error="raise",
            **settings,
        )

    def train(self, run: AttachedRun, passes: int = 2, error_at: int | None = None) -> None:
        """Train; an error in a step at which one is due."""
        for epoch in run.epochs(passes):
            for images, labels in self.loader:
                loss = self.loss(self.model(images), labels)
                self.optimizer.zero_grad()
                loss.backward()
                if run.step == error_at:
                    raise ValueError("a bad batch")
                self.optimizer.step()
                run.log(loss=loss)
                print(f"step {run.step}", end="\r", file=sys.stderr)
            print(f"epoch {epoch} is over")


def resuming(run: AttachedRun) -> threading.Thread:
    """A thread that resumes the run whenever it is paused, until it has ended."""

    def resume() -> None:
        while run.status is None:
            if run.controller.is_parked:
                run.controller.resume()
            time.sleep(0.005)

    thread = threading.Thread(target=resume, name="resuming", daemon=True)
    thread.start()
    return thread


def main(folder: Path, name: str) -> None:
    """Train for ever, and stop at the breakpoint once."""
    images = Images()
    with images.attach(folder, name) as run:
        resuming(run)
        print(f"this is {name}")
        images.train(run, passes=1)
        while True:
            images.train(run, passes=1)
            time.sleep(0.05)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])

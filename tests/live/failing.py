"""A training that fails in its third step, served; arguments: folder for its run, on_error.

The terminal on its standard input becomes its own, so that a key pressed there is a signal here.
"""

from __future__ import annotations

import os
import signal
import sys

import torch
from torch.utils.data import DataLoader

import midstep

os.close(os.open(os.ttyname(0), os.O_RDWR))
signal.signal(signal.SIGINT, signal.default_int_handler)  # it may be inherited as ignored

model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
loader = DataLoader(torch.arange(16.0).view(8, 2), batch_size=2)


def check(step: int) -> None:
    if step == 2:
        raise ValueError("the third batch is odd")


asked = {"on_error": sys.argv[2]} if len(sys.argv) > 2 else {}
with midstep.attach(
    model, optimizer, loader, save_dir=sys.argv[1], serve=True, port=0, **asked
) as run:
    for x in loader:
        loss = model(x).square().mean()
        run.log(loss=loss)
        check(run.controller.boundary.finished_steps)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

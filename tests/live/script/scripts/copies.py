"""Saves, copies and scripts the model between steps, and compiles a second one."""

import copy
import hashlib
import multiprocessing
import os
from pathlib import Path

import torch
from known import Known, digest
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, x):
        return self.layer(x).relu()


def train_in_child(model, results):
    """Two steps in a forked child: nothing of them belongs to the run."""
    watched, model = model, copy.deepcopy(model)
    watched(torch.ones(2, 3)).sum().backward()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(torch.ones(2, 3)).sum().backward()
    optimizer.step()
    results.send(digest(*model.parameters()))


if __name__ == "__main__":
    torch.manual_seed(10)
    torch.set_num_threads(1)
    known = Known()
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    files = []
    for _step in range(3):
        x = torch.randn(4, 3)
        loss = model(x).sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        known.step(model.parameters(), loss=loss, batch=(x,), lr=0.1)
        torch.save(model, "model.pt")
        files.append(hashlib.sha256(Path("model.pt").read_bytes()).hexdigest())
        average = copy.deepcopy(model)
        torch.jit.script(model)(x)
    here, there = multiprocessing.Pipe()
    child = multiprocessing.get_context("fork").Process(target=train_in_child, args=(model, there))
    child.start()
    in_child = here.recv()
    child.join()
    loaded = torch.load("model.pt", weights_only=False)
    hooks = [type(each._forward_pre_hooks).__name__ for each in (loaded, average)]
    known.write(layers=["layer.weight", "layer.bias"], files=files, hooks=hooks, child=in_child)
    assert os.getpid() != child.pid

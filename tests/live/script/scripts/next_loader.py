"""An object with `next()` whose thread fetches batches ahead; the loop counts steps, not epochs."""

import queue
import threading

import torch
from known import Known
from torch import nn
from torch.utils.data import DataLoader


class Prefetched:
    def __init__(self, loader):
        self.ready = queue.Queue(2)
        self.batches = iter(loader)
        threading.Thread(target=self.fetch, daemon=True).start()

    def fetch(self):
        for batch in self.batches:
            self.ready.put(batch)

    def next(self):
        return self.ready.get()


torch.manual_seed(18)
known = Known()
source = Prefetched(DataLoader(torch.randn(20, 3), batch_size=4))
model = nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _step in range(5):
    x = source.next()
    loss = model(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    known.step(model.parameters(), loss=loss, batch=(x,), lr=0.1)
known.write(layers=["weight", "bias"])

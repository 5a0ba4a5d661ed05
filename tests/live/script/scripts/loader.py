"""A loop over a DataLoader with a scheduler, a validation, and settings of argparse."""

import argparse
import weakref

import torch
from known import Known
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.1)
parser.add_argument("--epochs", type=int, default=2)
args = parser.parse_args()

torch.manual_seed(0)
known = Known()
data = TensorDataset(torch.randn(24, 4), torch.randint(3, (24,)))
train = DataLoader(data, batch_size=8, shuffle=True)
test = DataLoader(data, batch_size=12)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.1), nn.Linear(8, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
batches = []
for _epoch in range(args.epochs):
    for x, y in train:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        before = [each.detach().clone() for each in model.parameters()]
        optimizer.step()
        moved = [each - old for each, old in zip(model.parameters(), before, strict=True)]
        norms = {
            "layers.grad_norm": [each.grad.norm().item() for each in model.parameters()],
            "layers.update_norm": [each.norm().item() for each in moved],
        }
        lr = optimizer.param_groups[0]["lr"]
        known.step(model.parameters(), loss=loss, batch=(x, y), lr=lr, **norms)
        batches.append(weakref.ref(x))
        assert sum(batch() is not None for batch in batches) <= 2, "more than one batch is kept"
    scheduler.step()
    with torch.no_grad():
        for x, y in test:
            nn.functional.cross_entropy(model(x), y)
known.write(layers=[f"{i}.{kind}" for i in (0, 3) for kind in ("weight", "bias")], epochs=[3, 6])

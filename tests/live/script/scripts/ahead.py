"""Draws all micro-batches of a step one step ahead, as loops do that copy batches to a device."""

import torch
from known import Known
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(12)
known = Known()
loader = DataLoader(TensorDataset(torch.randn(24, 3), torch.randint(2, (24,))), 4, shuffle=True)
model = nn.Linear(3, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def groups(size, is_moved):
    """Lists of batches, each drawn before the one before it is given."""
    batches, ready = iter(loader), None
    while True:
        following = [batch for _, batch in zip(range(size), batches, strict=False)]
        if is_moved:  # as to a device: the batch of the loader is no more
            following = [(x.clone(), y.clone()) for x, y in following]
        if ready:
            yield ready
        if not following:
            return
        ready = following


def train(size, *, is_moved=False, scale=None):
    for group in groups(size, is_moved):
        total, seen = 0.0, []
        for x, y in group:
            given = x if scale is None else x * scale
            loss = nn.functional.cross_entropy(model(given), y) / size
            loss.backward()
            total += loss.item()
            seen.append((x,) if is_moved else (x, y))
        optimizer.step()
        optimizer.zero_grad()
        batch = [torch.cat(parts) for parts in zip(*seen, strict=True)]
        known.step(model.parameters(), loss=total, batch=batch, lr=0.1)


train(1)
train(2)
train(1, scale=0.5)
train(2, is_moved=True)
known.write(layers=["weight", "bias"])

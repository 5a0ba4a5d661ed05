"""A loop over a DataLoader with a scheduler, a validation, and settings of argparse."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.1)
parser.add_argument("--epochs", type=int, default=2)
args = parser.parse_args()

torch.manual_seed(0)
data = TensorDataset(torch.randn(24, 4), torch.randint(3, (24,)))
train = DataLoader(data, batch_size=8, shuffle=True)
test = DataLoader(data, batch_size=12)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.1), nn.Linear(8, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
for epoch in range(args.epochs):
    for x, y in train:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        print(f"{loss.item():.9g} {optimizer.param_groups[0]['lr']:g} {x.sum().item():.9g}")
    scheduler.step()
    with torch.no_grad():
        sum(nn.functional.cross_entropy(model(x), y) for x, y in test)
torch.save(model, "model.pt")

"""Uses midstep itself."""

import torch

import midstep

model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = torch.utils.data.DataLoader(torch.ones(6, 2), batch_size=2)
with midstep.attach(model, optimizer, loader, save_dir="own", run_name="own") as run:
    for x in loader:
        model(x).sum().backward()
        optimizer.step()
print(run.step)

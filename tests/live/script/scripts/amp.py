"""A GradScaler, whose first steps overflow and are left out."""

import torch
from known import Known
from torch import nn

torch.manual_seed(7)
known = Known()
net = nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=2)
for step in range(6):
    x = torch.randn(5, 3)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = net(x)
    loss = out.float().square().mean() * (float("inf") if step == 1 else 1.0)
    opt.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(opt)
    scaler.update()
    if step != 1:
        known.step(net.parameters(), loss=loss, batch=(x,), lr=0.1)
known.write(layers=["weight", "bias"])

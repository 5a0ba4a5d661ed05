"""One of two ranks; its number and the file of the group are its arguments.

It has a hook of its own on all optimizers, and a loss of 4 that is scaled by 8.
"""

import sys

import torch
import torch.distributed as dist
from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler
from torch.optim.optimizer import register_optimizer_step_pre_hook

rank = int(sys.argv[1])
dist.init_process_group("gloo", init_method=f"file://{sys.argv[2]}", rank=rank, world_size=2)
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = ShardedGradScaler("cpu", init_scale=8.0, process_group=dist.group.WORLD)
register_optimizer_step_pre_hook(lambda *_: None)
for _step in range(3):
    loss = model(torch.ones(2, 2)).sum() * 0 + 4
    scaler.scale(loss).backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()

"""LBFGS with a closure over the full batch."""

import torch
from known import Known
from torch import nn

torch.manual_seed(3)
known = Known()
inputs, targets = torch.randn(10, 4), torch.randn(10, 1)
seq = nn.Linear(4, 1).double()
inputs, targets = inputs.double(), targets.double()
optimizer = torch.optim.LBFGS(seq.parameters(), lr=0.5, max_iter=4)


def closure():
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(seq(inputs), targets)
    loss.backward()
    return loss


for _step in range(3):
    loss = optimizer.step(closure)
    gradients = [each.grad for each in seq.parameters()]  # of the last run of the closure
    norm = torch.nn.utils.get_total_norm(gradients).item()
    known.step(seq.parameters(), loss=loss, batch=(inputs,), lr=0.5, grad_norm=norm)
known.write(layers=["weight", "bias"])

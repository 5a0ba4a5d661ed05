"""One batch for all steps, a graph with a sparse matrix; a tensor is trained beside the model."""

import torch
from known import Known
from torch import nn


class Mixed(nn.Linear):
    def forward(self, x, neighbours):
        return super().forward(neighbours @ x)


class Energy(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleList([Mixed(3, 5), nn.Linear(5, 1)])

    def energy(self, x, neighbours):
        return self.parts[1](neighbours @ torch.tanh(self.parts[0](x, neighbours))).mean()


def main():
    torch.manual_seed(4)
    known = Known()
    model = Energy()
    scale = torch.ones(1, requires_grad=True)
    optimizer = torch.optim.SGD([*model.parameters(), scale], lr=0.1, momentum=0.9)
    x, neighbours = torch.randn(7, 3), torch.eye(7).roll(1, 0).to_sparse()
    for _step in range(4):
        optimizer.zero_grad()
        loss = scale.square().sum() + model.energy(x, neighbours)
        torch.autograd.backward(loss)
        optimizer.step()
        known.step([*model.parameters(), scale], loss=loss, batch=(x,), lr=0.1)
    names = [f"model.parts.{i}.{kind}" for i in (0, 1) for kind in ("weight", "bias")]
    known.write(layers=[*names, "scale"])


main()

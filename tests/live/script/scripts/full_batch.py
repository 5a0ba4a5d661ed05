"""One batch for all steps; the loss is a method of the model; a tensor is trained beside it."""

import torch
from known import Known
from torch import nn


class Energy(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleList([nn.Linear(3, 5), nn.Linear(5, 1)])

    def energy(self, x):
        return self.parts[1](torch.tanh(self.parts[0](x))).mean()


def main():
    torch.manual_seed(4)
    known = Known()
    model = Energy()
    scale = torch.ones(1, requires_grad=True)
    optimizer = torch.optim.SGD([*model.parameters(), scale], lr=0.1, momentum=0.9)
    x = torch.randn(7, 3)
    for _step in range(4):
        optimizer.zero_grad()
        loss = scale.square().sum() + model.energy(x)
        torch.autograd.backward(loss)
        optimizer.step()
        known.step([*model.parameters(), scale], loss=loss, batch=(x,), lr=0.1)
    names = [f"model.parts.{i}.{kind}" for i in (0, 1) for kind in ("weight", "bias")]
    known.write(layers=[*names, "scale"])


main()

"""SAM: a first backward pass only perturbs the weights; its settings are `locals()`."""

import torch
from known import Known
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class SAM(torch.optim.Optimizer):
    def __init__(self, parameters, base, rho, **options):
        super().__init__(parameters, {"rho": rho, **options})
        self.base = base(self.param_groups, **options)
        self.param_groups = self.base.param_groups

    @torch.no_grad()
    def perturb(self):
        for parameter in self.param_groups[0]["params"]:
            moved = parameter.grad * self.param_groups[0]["rho"]
            self.state[parameter]["moved"] = moved
            parameter.add_(moved)

    @torch.no_grad()
    def step(self):
        for parameter in self.param_groups[0]["params"]:
            parameter.sub_(self.state[parameter]["moved"])
        self.base.step()


def main(rate=0.1, rho=0.05):
    settings = locals()
    torch.manual_seed(16)
    known = Known()
    loader = DataLoader(TensorDataset(torch.randn(12, 3), torch.randn(12, 1)), 4, shuffle=True)
    model = nn.Linear(3, 1)
    optimizer = SAM(model.parameters(), torch.optim.SGD, rho, lr=rate)
    for x, y in loader:
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.perturb()
        model.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        model.zero_grad()
        known.step(model.parameters(), loss=loss, batch=(x, y), lr=rate)
    known.write(layers=["weight", "bias"], settings=settings)


main()

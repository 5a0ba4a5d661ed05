"""A GAN: two optimizers, two backward passes for the discriminator."""

import torch
from known import Known
from torch import nn
from torch.utils.data import DataLoader

torch.manual_seed(2)
known = Known()
netD = nn.Sequential(nn.Linear(3, 8), nn.LeakyReLU(), nn.Linear(8, 1))
netG = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 3))
optimizerD = torch.optim.Adam(netD.parameters(), lr=0.01)
optimizerG = torch.optim.SGD(netG.parameters(), lr=0.02)
criterion = nn.BCEWithLogitsLoss()
for real in DataLoader(torch.randn(24, 3), batch_size=6, shuffle=True):
    netD.zero_grad()
    error_real = criterion(netD(real), torch.ones(len(real), 1))
    error_real.backward()
    fake = netG(torch.randn(len(real), 2))
    error_fake = criterion(netD(fake.detach()), torch.zeros(len(real), 1))
    error_fake.backward()
    optimizerD.step()
    netG.zero_grad()
    error_g = criterion(netD(fake), torch.ones(len(real), 1))
    error_g.backward()
    optimizerG.step()
    more = {"loss.optimizerG": error_g.item(), "lr.optimizerG": 0.02}
    weights = [*netD.parameters(), *netG.parameters()]
    loss = error_real.item() + error_fake.item()
    known.step(weights, loss=loss, batch=(real,), lr=0.01, **more)
parts = ("0.weight", "0.bias", "2.weight", "2.bias")
known.write(
    layers=[f"{net}.{part}" for net in ("netD", "netG") for part in parts],
    optimizers=["Adam", "SGD"],
)

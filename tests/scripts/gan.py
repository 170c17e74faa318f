"""Two networks, two optimizers; the discriminator is called three times an iteration."""

import torch
from torch import nn

generator = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 16))
discriminator = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))
criterion = nn.BCEWithLogitsLoss()
of_d = torch.optim.Adam(discriminator.parameters(), lr=1e-3)
of_g = torch.optim.Adam(generator.parameters(), lr=1e-3)
ones, zeros = torch.ones(8, 1), torch.zeros(8, 1)
for _ in range(400):
    of_d.zero_grad()
    criterion(discriminator(torch.randn(8, 16)), ones).backward()
    fake = generator(torch.randn(8, 8))
    criterion(discriminator(fake.detach()), zeros).backward()
    of_d.step()
    of_g.zero_grad()
    criterion(discriminator(fake), ones).backward()
    of_g.step()

"""Four micro-batches to an optimizer step."""

import torch
from torch import nn

model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for micro in range(1600):
    loss = model(torch.randn(8, 16)).square().mean() / 4
    loss.backward()
    if micro % 4 == 3:
        optimizer.step()
        optimizer.zero_grad()

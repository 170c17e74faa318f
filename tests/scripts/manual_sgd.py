"""No optimizer object: parameters are moved by hand."""

import torch
from torch import nn

model = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 1))
for _ in range(400):
    model.zero_grad()
    model(torch.randn(8, 16)).square().mean().backward()
    with torch.no_grad():
        for p in model.parameters():
            p.data.add_(p.grad, alpha=-0.01)

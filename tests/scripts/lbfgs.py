"""``optimizer.step(closure)`` with many evaluations inside, as in the time_sequence example."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 1))
inputs, targets = torch.randn(64, 16), torch.randn(64, 1)
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=20)


def closure():
    optimizer.zero_grad()
    loss = (model(inputs) - targets).square().mean()
    loss.backward()
    return loss


for _ in range(40):
    optimizer.step(closure)

"""Fifty evaluation batches before the first step, and ten more between steps. Argument: how many steps lie between."""

import sys

import torch
from torch import nn

model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


@torch.no_grad()
def evaluate(batches):
    model.eval()
    for _ in range(batches):
        model(torch.randn(64, 16))
    model.train()


every = int(sys.argv[1])
evaluate(50)
for step in range(4000):
    loss = model(torch.randn(8, 16)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % every == every - 1:
        evaluate(10)

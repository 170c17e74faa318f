"""Fifty evaluation batches before the first step, and ten more after every fifth one."""

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


evaluate(50)
for step in range(4000):
    loss = model(torch.randn(8, 16)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 5 == 4:
        evaluate(10)

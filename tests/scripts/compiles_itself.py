"""A script that already asks for torch.compile. Argument: how (call, method, decorated, step)."""

import sys

import torch
from torch import nn

how = sys.argv[1]
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


def loss_of(inputs):
    return model(inputs).square().mean()


@torch.compile(backend="eager")
def decorated_loss(inputs):
    return model(inputs).square().mean()


@torch.compile(backend="eager")
def whole_step(inputs):
    optimizer.zero_grad()
    loss = model(inputs).square().mean()
    loss.backward()
    optimizer.step()
    return loss


if how == "call":
    compiled = torch.compile(model, backend="eager")
elif how == "method":
    model.compile(backend="eager")
elif how == "decorated":
    loss_of = decorated_loss

for _ in range(2000):
    inputs = torch.randn(8, 16)
    if how == "step":
        whole_step(inputs)
        continue
    loss = compiled(inputs).square().mean() if how == "call" else loss_of(inputs)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

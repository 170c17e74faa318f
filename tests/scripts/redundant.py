"""The same product ten times: aot_eager, which shares common subexpressions, is surely faster. Argument: steps."""

import sys

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(256, 256) / 16)

    def forward(self, x):
        total = torch.tanh(x @ self.weight)
        for _ in range(9):
            total = total + torch.tanh(x @ self.weight)
        return total


model = Model()
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
inputs = torch.randn(256, 256)
for _ in range(int(sys.argv[1])):
    loss = model(inputs).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

"""A graph break inside a Python loop: Dynamo gives the frame up (design, fact 19)."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.weights = nn.ParameterList(torch.randn(16, 16) / 4 for _ in range(3))

    def forward(self, x):
        for weight in self.weights:
            x = x @ weight
            if x.sum().item() > 1e9:
                x = x / 2
        return x


model = Model()
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
while True:
    loss = model(torch.randn(8, 16)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

"""Compile is asked for and nothing is compiled. A line with ``expect:`` has the findings above info that it names."""

import torch
from torch import nn


class EarlyExit(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stages = nn.ModuleList(nn.Linear(16, 16) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for stage in self.stages:
            x = torch.relu(stage(x))
            if x.max() > 100.0:  # expect: graph-break-branch nothing-compiled
                break
        return x.sum()


torch.manual_seed(0)
model = torch.compile(EarlyExit())
optimizer = torch.optim.SGD(model.parameters(), 0.001)
for _step in range(20):
    loss = model(torch.randn(8, 16))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

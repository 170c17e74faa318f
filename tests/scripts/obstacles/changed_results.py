"""Compiled, this script does something else. A line with ``expect:`` has the findings above info that it names."""

import random

import torch
from torch import nn


class Pairs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Linear(8, 8)
        self.register_buffer("step", torch.zeros(()))

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        self.step += 1  # expect: buffer-changed-in-forward
        order = list(range(b.shape[0]))
        random.shuffle(order)  # expect: random-frozen
        gap = (self.encoder(a) - self.encoder(b)[order]).norm(dim=1)
        return (gap * (self.step / 10).clamp(max=1.0)).mean()


torch.manual_seed(0)
model = torch.compile(Pairs())
optimizer = torch.optim.SGD(model.parameters(), 0.01)
a, b = torch.randn(12, 8), torch.randn(12, 8)
seen = []
for step in range(20):
    loss = model(a, b)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step == 0:
        model.encoder.register_forward_hook(lambda m, args, out: seen.append(1))  # expect: late-hook

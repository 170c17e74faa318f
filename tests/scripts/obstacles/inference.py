"""Obstacles of an inference script. A line with ``expect:`` has the findings above info that it names."""

import time

import torch
from torch import nn


class Solver(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.f = nn.Linear(6, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(50):  # expect: unrolled-loop
            x = x + 0.02 * torch.tanh(self.f(x))
        return x


@torch.compile
def shift(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    a.mul_(0.5)
    return (a + b).sum()


if torch.__version__ == "0":
    torch._dynamo.config.supports_dynamic_shape = True  # expect: unknown-setting
torch.manual_seed(0)
solver = torch.compile(Solver().eval())
x, buffer = torch.randn(8, 6), torch.randn(40)
begun = time.perf_counter()
with torch.no_grad():
    solver(x)
first = time.perf_counter() - begun  # expect: timing-includes-compile
with torch.no_grad():
    for _ in range(20):
        y = solver(x)
        shift(buffer[:24], buffer[12:36])  # expect: overlapping-inputs

"""Obstacles of a training script. A line with ``expect:`` has the findings above info that it names."""

import torch
from torch import nn


class Gate(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        peak = self.lin(x).abs().max().item()  # expect: graph-break-item
        return x / max(peak, 1.0)


class Counter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self.lin = nn.Linear(16, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1  # expect: recompile-attribute
        return self.lin(x) * min(1.0, self.calls / 100)


class Average:
    def __init__(self, model: nn.Module) -> None:
        self.shadow = {name: p.detach().clone() for name, p in model.named_parameters()}

    def update(self, model: nn.Module) -> None:
        for name, p in model.named_parameters():
            if name in self.shadow:  # expect: state-dict-prefix
                self.shadow[name].lerp_(p.detach(), 0.1)


torch.manual_seed(0)
model = nn.Sequential(Gate(), nn.Dropout(0.1), Counter())
average = Average(model)
model = torch.compile(model)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
x, y = torch.randn(32, 16), torch.randn(32, 1)
losses = []
for step in range(30):
    loss = (model(x) - y).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    average.update(model)
    losses.append(loss)  # expect: kept-graph
    if step % 10 == 9:
        error = (model(x) - y).abs().mean().detach()  # expect: eval-with-gradients eval-in-training-mode

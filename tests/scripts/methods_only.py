"""A policy class without ``forward``: its methods call the submodules (design, fact 24)."""

import torch
from torch import nn


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.actor, self.critic = nn.Linear(4, 32), nn.Linear(32, 2), nn.Linear(32, 1)

    def evaluate(self, states):
        hidden = torch.tanh(self.body(states))
        return self.actor(hidden), self.critic(hidden)


policy = Policy()
optimizer = torch.optim.Adam(policy.parameters())
for _ in range(1000):
    logits, values = policy.evaluate(torch.randn(16, 4))
    loss = logits.logsumexp(1).mean() + values.square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

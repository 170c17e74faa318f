"""Reinforcement learning: a rollout of forty calls without gradients, then one update."""

import torch
from torch import nn

policy = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 2))
optimizer = torch.optim.Adam(policy.parameters(), lr=1e-3)
for _ in range(200):
    states = []
    with torch.no_grad():
        state = torch.randn(1, 4)
        for _ in range(40):
            state = state + policy(state).sum() * 0.01
            states.append(state)
    loss = policy(torch.cat(states)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

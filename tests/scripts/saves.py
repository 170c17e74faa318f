"""Writes a checkpoint over an old one, reads it again, and keeps a log. Argument: steps."""

import os
import sys

import torch
from torch import nn

model = nn.Linear(4, 2)
torch.save(model.state_dict(), "checkpoint.pt")
state = torch.load("checkpoint.pt")
assert torch.equal(state["weight"], model.weight), "what was saved is not what was loaded"
with open("history.txt", "w") as history:
    history.write("overwritten")
with open("created.txt", "w") as created:
    created.write("new")
os.remove("removed.txt")
os.replace("created.txt", "renamed.txt")
print({name: value for name, value in os.environ.items() if name in ("WANDB_MODE", "COMET_MODE", "SWANLAB_MODE")})
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(int(sys.argv[1])):
    model(torch.randn(8, 4)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
torch.save(model.state_dict(), "checkpoint.pt")

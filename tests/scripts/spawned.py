"""Training in a process that torch.multiprocessing spawned, whose main module is ``__mp_main__``."""

import torch
import torch.multiprocessing as mp
from torch import nn


def train(rank):
    assert __name__ == "__mp_main__"
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(100_000):
        loss = model(torch.randn(8, 16)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    mp.spawn(train, nprocs=1)
    print("the script's own end")

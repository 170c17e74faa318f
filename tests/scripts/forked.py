"""Training in a child forked after torch was imported."""

import multiprocessing

import torch
from torch import nn


def train():
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(100_000):
        loss = model(torch.randn(8, 16)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    child = multiprocessing.get_context("fork").Process(target=train)
    child.start()
    child.join()
    print("the script's own end")

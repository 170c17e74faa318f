"""A new dataset and a new loader in each epoch, as scripts with shards or curricula have."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
alive = []  # the old ones are kept, as by a list of shards
for _ in range(30):
    dataset = TensorDataset(torch.randn(256, 16))
    alive.append(dataset)
    for (inputs,) in DataLoader(dataset, batch_size=16):
        model(inputs).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

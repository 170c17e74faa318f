"""Modules that are no networks: a transform that the loader calls, and a loss."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Normalize(nn.Module):
    def forward(self, sample):
        return (sample - 0.5) / 0.5


class Samples(Dataset):
    def __init__(self):
        self.transform = Normalize()

    def __len__(self):
        return 512

    def __getitem__(self, index):
        return self.transform(torch.rand(16)), index % 4


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))

    def forward(self, inputs):
        return self.body(inputs)


net, criterion = Net(), nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
loader = DataLoader(Samples(), batch_size=16)
for _ in range(20):
    for inputs, targets in loader:
        optimizer.zero_grad()
        criterion(net(inputs), targets).backward()
        optimizer.step()

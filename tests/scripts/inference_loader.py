"""Prediction over a loader, no gradients."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).eval()
loader = DataLoader(TensorDataset(torch.randn(4096, 16)), batch_size=8)
with torch.no_grad():
    for (inputs,) in loader:
        model(inputs).argmax(1)

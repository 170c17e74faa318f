"""Things that look like obstacles and need no action: there is no finding above info in here."""

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
data = TensorDataset(torch.randn(100, 12), torch.randn(100, 1))
loader = DataLoader(data, batch_size=32)
model = nn.Sequential(nn.Linear(12, 24), nn.BatchNorm1d(24), nn.ReLU(), nn.Dropout(0.1), nn.Linear(24, 1))
optimizer = torch.optim.Adam(model.parameters(), 1e-3)
model.compile()
for _epoch in range(8):
    model.train()
    for x, y in loader:
        loss = (model(x) - y).square().mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    model.eval()
    with torch.no_grad():
        error = (model(data.tensors[0]) - data.tensors[1]).abs().mean().item()
torch.save(model.state_dict(), "benign.pt")
ragged = pad_sequence([torch.ones(3), torch.ones(2)])

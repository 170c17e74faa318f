"""Batches from a DataLoader, over several epochs. Arguments: number of workers, how they are started."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Noise(Dataset):
    def __len__(self):
        return 256

    def __getitem__(self, index):
        return torch.full((16,), float(index)) / 256, index % 4


def collate(samples):
    return torch.stack([s[0] for s in samples]), torch.tensor([s[1] for s in samples])


if __name__ == "__main__":
    workers, method = (int(sys.argv[1]), sys.argv[2]) if len(sys.argv) > 2 else (0, None)
    epochs = int(sys.argv[3]) if len(sys.argv) > 3 else 40
    torch.manual_seed(0)
    loader = DataLoader(
        Noise(), batch_size=32, shuffle=True, collate_fn=collate, num_workers=workers, multiprocessing_context=method
    )
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(epochs):
        for inputs, targets in loader:
            loss = nn.functional.cross_entropy(model(inputs), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            print(epoch, loss.item().hex())

# bfloat16 autocast on the CPU, gradients accumulated over four micro-batches and clipped before each update. Only the
# forward pass and the loss stand in the autocast context; nothing is called outside of it.
# Clean: one graph. Nothing should be reported above info.
import torch
from torch import nn

ACCUMULATE = 4
UPDATES = 60


class Mixer(nn.Module):
    """One token-mixing and one channel-mixing MLP, over patches."""

    def __init__(self, patches=32, width=64, classes=10):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.tokens = nn.Sequential(nn.Linear(patches, 64), nn.GELU(), nn.Linear(64, patches))
        self.channels = nn.Sequential(nn.Linear(width, 128), nn.GELU(), nn.Linear(128, width))
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        x = x + self.tokens(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        x = x + self.channels(self.norm2(x))
        return self.head(x.mean(dim=1))


torch.manual_seed(0)
model = Mixer()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)
criterion = nn.CrossEntropyLoss()

for update in range(1, UPDATES + 1):
    optimizer.zero_grad()
    running = 0.0
    for _ in range(ACCUMULATE):
        patches = torch.randn(8, 32, 64)
        labels = patches[:, :, :10].mean(dim=1).argmax(dim=1)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = criterion(model(patches), labels) / ACCUMULATE
        loss.backward()
        running += loss.detach()
    norm = nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
    optimizer.step()
    if update % 20 == 0:
        print(f"update {update} loss {running.item():.4f} gradient norm {norm.item():.3f}")
print(f"final loss {running.item():.4f}")

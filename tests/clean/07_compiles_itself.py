# A script that compiles its network by itself, and properly: once, before the loop, every input of one shape and dtype,
# weights not saved under the names of the wrapper.
# Clean: one graph. Nothing should be reported above info.
import torch
from torch import nn


class GatedNet(nn.Module):
    def __init__(self, inputs=40, width=256, outputs=8):
        super().__init__()
        self.first = nn.Linear(inputs, width)
        self.gate = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.last = nn.Linear(width, outputs)

    def forward(self, x):
        x = self.first(x)
        return self.last(x + torch.sigmoid(self.gate(x)) * torch.tanh(self.value(x)))


torch.manual_seed(0)
model = GatedNet()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
model = torch.compile(model)

for step in range(200):
    x = torch.randn(512, 40)
    target = x[:, :8].argmax(dim=1)
    loss = nn.functional.cross_entropy(model(x), target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if (step + 1) % 50 == 0:
        print(f"step {step + 1} loss {loss.item():.4f}")
print(f"loss {loss.item():.4f}")

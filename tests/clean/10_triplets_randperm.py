# Metric learning: the negatives of a triplet loss are the positives in an order that torch.randperm draws in
# forward.
# torch's generator goes on being asked in compiled code, so every step has an order of its own.
# Clean: one graph. Nothing should be reported above info.
import torch
import torch.nn.functional as F
from torch import nn


class TripletNet(nn.Module):
    def __init__(self, inputs=128, width=512, embedding=64, margin=0.3):
        super().__init__()
        self.margin = margin
        self.encoder = nn.Sequential(
            nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, embedding)
        )

    def embed(self, x):
        return F.normalize(self.encoder(x), dim=-1)

    def forward(self, anchors, positives):
        a, p = self.embed(anchors), self.embed(positives)
        order = torch.randperm(a.shape[0])
        near = (a - p).square().sum(dim=1)
        far = (a - p[order]).square().sum(dim=1)
        return F.relu(near - far + self.margin).mean()


def pairs(centres, batch_size):
    """Two noisy views of the same centre."""
    picked = centres[torch.randint(0, len(centres), (batch_size,))]
    return picked + 0.5 * torch.randn_like(picked), picked + 0.5 * torch.randn_like(picked)


def main():
    torch.manual_seed(0)
    centres = torch.randn(200, 128)
    model = TripletNet()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4)
    history = []
    for _ in range(150):
        anchors, positives = pairs(centres, 256)
        loss = model(anchors, positives)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        history.append(loss.detach())
    print(f"mean triplet loss of the last 50 steps {torch.stack(history[-50:]).mean().item():.4f}")


if __name__ == "__main__":
    main()

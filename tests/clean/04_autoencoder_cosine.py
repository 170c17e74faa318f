# An autoencoder on tensors that lie in memory, without a DataLoader: each epoch takes slices of one
# size from a random order. The learning rate follows a cosine; the optimizer is not compiled, so that costs nothing.
# Clean: one graph. Nothing should be reported above info.
import torch
from torch import nn


class Autoencoder(nn.Module):
    def __init__(self, size=784, code=32):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Linear(size, 400), nn.SiLU(), nn.Linear(400, 150), nn.SiLU(), nn.Linear(150, code)
        )
        self.decoder = nn.Sequential(
            nn.Linear(code, 150), nn.SiLU(), nn.Linear(150, 400), nn.SiLU(), nn.Linear(400, size), nn.Sigmoid()
        )

    def forward(self, x):
        code = self.encoder(x)
        return self.decoder(code), code


torch.manual_seed(0)
EPOCHS, BATCH = 5, 256
basis = torch.randn(16, 784)
data = torch.sigmoid(torch.randn(8192, 16) @ basis)

net = Autoencoder()
opt = torch.optim.Adam(net.parameters(), lr=2e-3)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=EPOCHS * (len(data) // BATCH))

for epoch in range(EPOCHS):
    order = torch.randperm(len(data))
    total = torch.zeros(())
    for start in range(0, len(data) - BATCH + 1, BATCH):
        batch = data[order[start : start + BATCH]]
        restored, code = net(batch)
        loss = nn.functional.binary_cross_entropy(restored, batch) + 1e-4 * code.square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        scheduler.step()
        total += loss.detach()
    mean = total.item() / (len(data) // BATCH)
    print(f"epoch {epoch + 1}/{EPOCHS} loss {mean:.4f} lr {scheduler.get_last_lr()[0]:.2e}")

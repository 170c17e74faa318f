# model.compile() in place, and checkpoints: the names in the state dict stay those of the plain network, so it loads
# into a network that is not compiled. The reloaded network is used in eager mode, for one evaluation at the end.
# Clean: one graph. Nothing should be reported above info.
import os
import tempfile

import torch
from torch import nn


def build_model():
    return nn.Sequential(nn.Conv1d(4, 64, 9, padding=4), nn.SiLU(), nn.Conv1d(64, 4, 9, padding=4))


def noisy_waves(batch_size, length=128):
    phase = 6.28 * torch.rand(batch_size, 4, 1)
    clean = torch.sin(phase + torch.linspace(0, 25, length))
    return clean + 0.4 * torch.randn_like(clean), clean


def save_checkpoint(path, model, optimizer, step):
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, path)


def main():
    torch.manual_seed(0)
    model = build_model()
    model.compile()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "last.pt")
        for step in range(1, 161):
            noisy, clean = noisy_waves(64)
            loss = nn.functional.smooth_l1_loss(model(noisy), clean)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % 80 == 0:
                save_checkpoint(path, model, optimizer, step)
                print(f"step {step} loss {loss.item():.5f}")
        checkpoint = torch.load(path, weights_only=True)
    plain = build_model()
    plain.load_state_dict(checkpoint["model"])
    plain.eval()
    with torch.no_grad():
        noisy, clean = noisy_waves(64)
        error = nn.functional.mse_loss(plain(noisy), clean).item()
    print(f"checkpoint of step {checkpoint['step']}: mean squared error {error:.5f}")


if __name__ == "__main__":
    main()

# A small U-Net for binary segmentation: two levels down, two up, skip connections, BCE and Dice loss.
# All images have one size, and the upsampling a fixed factor.
# Clean: one graph. Nothing should be reported above info.
import torch
import torch.nn.functional as F
from torch import nn


def double_conv(inputs, outputs):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1),
        nn.GroupNorm(4, outputs),
        nn.ReLU(inplace=True),
        nn.Conv2d(outputs, outputs, 3, padding=1),
        nn.GroupNorm(4, outputs),
        nn.ReLU(inplace=True),
    )


class UNet(nn.Module):
    def __init__(self, base=12):
        super().__init__()
        self.down1 = double_conv(1, base)
        self.down2 = double_conv(base, 2 * base)
        self.middle = double_conv(2 * base, 4 * base)
        self.up2 = nn.ConvTranspose2d(4 * base, 2 * base, 2, stride=2)
        self.merge2 = double_conv(4 * base, 2 * base)
        self.merge1 = double_conv(3 * base, base)
        self.out = nn.Conv2d(base, 1, 1)

    def forward(self, x):
        skip1 = self.down1(x)
        skip2 = self.down2(F.max_pool2d(skip1, 2))
        x = self.middle(F.max_pool2d(skip2, 2))
        x = self.merge2(torch.cat([skip2, self.up2(x)], dim=1))
        x = F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)
        return self.out(self.merge1(torch.cat([skip1, x], dim=1)))


def dice_loss(logits, target):
    p = torch.sigmoid(logits).flatten(1)
    t = target.flatten(1)
    overlap = (p * t).sum(dim=1)
    return (1 - (2 * overlap + 1) / (p.sum(dim=1) + t.sum(dim=1) + 1)).mean()


def sample(batch_size, size=48):
    """Noisy discs of random centre and radius, and their masks."""
    axis = torch.arange(size, dtype=torch.float32)
    centre = torch.rand(batch_size, 2, 1, 1) * size
    radius = 6 + 10 * torch.rand(batch_size, 1, 1)
    distance = ((axis.view(1, -1, 1) - centre[:, 0]) ** 2 + (axis.view(1, 1, -1) - centre[:, 1]) ** 2).sqrt()
    mask = (distance < radius).float().unsqueeze(1)
    return mask + 0.5 * torch.randn_like(mask), mask


def main():
    torch.manual_seed(0)
    model = UNet()
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
    for step in range(120):
        images, masks = sample(4)
        logits = model(images)
        loss = F.binary_cross_entropy_with_logits(logits, masks) + dice_loss(logits, masks)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if step % 40 == 39:
            print(f"step {step + 1} loss {loss.item():.4f}")
    print(f"final dice {1 - dice_loss(logits, masks).item():.3f}")


if __name__ == "__main__":
    main()

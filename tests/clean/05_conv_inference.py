# Inference only: a residual convolutional network under torch.inference_mode, batches of one size, answers collected as
# tensors and read once at the end.
# Clean: one graph. Nothing should be reported above info.
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.act = nn.Hardswish()

    def forward(self, x):
        y = self.act(self.bn1(self.conv1(x)))
        return self.act(x + self.bn2(self.conv2(y)))


class Classifier(nn.Module):
    def __init__(self, classes=20):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 32, 4, stride=4), nn.BatchNorm2d(32), nn.Hardswish())
        self.blocks = nn.Sequential(*[Block(32) for _ in range(3)])
        self.head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, classes))

    def forward(self, x):
        return self.head(self.blocks(self.stem(x)))


@torch.inference_mode()
def predict(model, images, batch_size):
    model.eval()
    answers = []
    for chunk in images.split(batch_size):
        answers.append(model(chunk).softmax(dim=1))
    return torch.cat(answers)


if __name__ == "__main__":
    torch.manual_seed(0)
    images = torch.randn(2400, 3, 64, 64)
    probabilities = predict(Classifier(), images, batch_size=16)
    print(f"{len(probabilities)} images, mean confidence {probabilities.amax(dim=1).mean().item():.4f}")

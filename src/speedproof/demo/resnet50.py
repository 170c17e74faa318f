"""Train ResNet-50 on synthetic images."""

from __future__ import annotations

import argparse

import torch
import torchvision
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset


def make_dataset(images: int, size: int, classes: int) -> TensorDataset:
    """Noise as (images, 3, size, size), with a label below ``classes`` for each."""
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randn(images, 3, size, size, generator=generator)
    labels = torch.randint(classes, (images,), generator=generator)
    return TensorDataset(pixels, labels)


def train_step(
    model: nn.Module, criterion: nn.Module, optimizer: torch.optim.Optimizer, images: Tensor, labels: Tensor
) -> Tensor:
    """One optimizer step; returns the loss without waiting for the device."""
    loss: Tensor = criterion(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


def train(args: argparse.Namespace, device: torch.device) -> None:
    """Train ResNet-50 for ``args.steps`` steps."""
    on_gpu = device.type == "cuda"
    dataset = make_dataset(args.images, args.image_size, args.classes)
    loader = DataLoader(
        dataset,
        batch_size=args.batch_size,
        shuffle=True,
        num_workers=args.workers,
        persistent_workers=args.workers > 0,
        pin_memory=on_gpu,
        drop_last=True,
    )
    model = torchvision.models.resnet50(weights=None, num_classes=args.classes).to(device)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9, weight_decay=1e-4)

    model.train()
    step = 0
    while step < args.steps:
        for images, labels in loader:
            images = images.to(device, non_blocking=True)
            labels = labels.to(device, non_blocking=True)
            loss = train_step(model, criterion, optimizer, images, labels)
            if step % 10 == 0:
                print(f"step {step:5d}  loss {loss.item():.4f}", flush=True)
            step += 1
            if step == args.steps:
                break


def parse_args(on_gpu: bool) -> argparse.Namespace:
    """Options, with defaults that suit the device."""
    parser = argparse.ArgumentParser(description="Train ResNet-50 on synthetic images.")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--batch-size", type=int, default=64 if on_gpu else 4)
    parser.add_argument("--image-size", type=int, default=224 if on_gpu else 96)
    parser.add_argument("--images", type=int, default=2048 if on_gpu else 512, help="size of the dataset")
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--workers", type=int, default=4 if on_gpu else 0)
    parser.add_argument("--lr", type=float, default=0.001)
    return parser.parse_args()


def main() -> None:
    """Train on the GPU if there is one."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    args = parse_args(on_gpu=device.type == "cuda")
    torch.manual_seed(0)
    train(args, device)


if __name__ == "__main__":
    main()

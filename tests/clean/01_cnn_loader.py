# A small convolutional classifier with BatchNorm. The data lies in memory behind a DataLoader; each epoch trains, then
# evaluates in eval mode without gradients. drop_last keeps every batch the same size.
# Clean: two graphs (training, evaluation), each compiled once. Nothing should be reported above info.
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class SmallCNN(nn.Module):
    def __init__(self, classes=10):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(32)
        self.pool = nn.MaxPool2d(2)
        self.head = nn.Linear(32, classes)

    def forward(self, x):
        x = self.pool(F.relu(self.bn1(self.conv1(x))))
        x = self.pool(F.relu(self.bn2(self.conv2(x))))
        return self.head(x.mean(dim=(2, 3)))


def make_data(size, generator):
    labels = torch.randint(0, 10, (size,), generator=generator)
    images = torch.randn(size, 3, 32, 32, generator=generator) + labels.view(-1, 1, 1, 1) / 5
    return TensorDataset(images, labels)


def train(model, loader, optimizer):
    model.train()
    for images, labels in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()


def evaluate(model, loader):
    model.eval()
    right = seen = 0
    with torch.no_grad():
        for images, labels in loader:
            right += (model(images).argmax(dim=1) == labels).sum().item()
            seen += labels.numel()
    return right / seen


def main():
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(1)
    train_loader = DataLoader(make_data(2000, generator), batch_size=32, shuffle=True, drop_last=True)
    test_loader = DataLoader(make_data(500, generator), batch_size=32, drop_last=True)
    model = SmallCNN()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)
    for epoch in range(3):
        train(model, train_loader, optimizer)
        accuracy = evaluate(model, test_loader)
        print(f"epoch {epoch} accuracy {accuracy:.3f}")


if __name__ == "__main__":
    main()

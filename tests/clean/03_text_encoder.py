# A transformer encoder that classifies texts, all of the same length. Dropout draws from torch's own generator.
# Clean: one graph; compiled and eager draw other dropout masks, which is no fault. Nothing should be reported above
# info.
import math

import torch
from torch import nn

VOCABULARY, LENGTH, CLASSES = 2000, 32, 4


class TextClassifier(nn.Module):
    def __init__(self, width=96, heads=4, layers=2):
        super().__init__()
        self.scale = math.sqrt(width)
        self.tokens = nn.Embedding(VOCABULARY, width)
        self.positions = nn.Parameter(torch.zeros(1, LENGTH, width))
        layer = nn.TransformerEncoderLayer(
            width, heads, dim_feedforward=4 * width, dropout=0.1, activation="gelu", batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, CLASSES)

    def forward(self, ids):
        x = self.tokens(ids) * self.scale + self.positions
        x = self.norm(self.encoder(x))
        return self.head(x.mean(dim=1))


def batches(count, batch_size, generator):
    for _ in range(count):
        labels = torch.randint(0, CLASSES, (batch_size,), generator=generator)
        ids = torch.randint(0, VOCABULARY // CLASSES, (batch_size, LENGTH), generator=generator)
        yield ids + (labels * (VOCABULARY // CLASSES)).unsqueeze(1), labels


torch.manual_seed(0)
model = TextClassifier()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.01)
loss_fn = nn.CrossEntropyLoss(label_smoothing=0.05)

model.train()
running = 0.0
for step, (ids, labels) in enumerate(batches(100, 16, torch.Generator().manual_seed(1)), start=1):
    optimizer.zero_grad()
    loss = loss_fn(model(ids), labels)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    running += loss.detach()
    if step % 25 == 0:
        print(f"step {step}: mean loss {running.item() / 25:.4f}")
        running = 0.0
print(f"loss {loss.item():.4f}")

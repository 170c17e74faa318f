"""A model that is called with keyword arguments only, as those of transformers are."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(50, 16), nn.Linear(16, 50)

    def forward(self, *, input_ids, labels=None):
        logits = self.head(self.embed(input_ids))
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten()) if labels is not None else None
        return {"loss": loss, "logits": logits}


model = Model()
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(400):
    ids = torch.randint(0, 50, (4, 8))
    model(input_ids=ids, labels=ids)["loss"].backward()
    optimizer.step()
    optimizer.zero_grad()

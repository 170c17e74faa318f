"""Prediction on one tensor after the other, without a loader."""

import torch
from torch import nn

encoder, decoder = nn.Linear(16, 32).eval(), nn.Linear(32, 4).eval()
with torch.inference_mode():
    for _ in range(600):
        decoder(encoder(torch.randn(8, 16)))

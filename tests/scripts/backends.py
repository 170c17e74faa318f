"""An endless loop, and backends that fail in the ways of real ones."""

import os
import time

import torch
from torch import nn
from torch._dynamo import register_backend


@register_backend
def boom(graph, inputs):
    raise RuntimeError("the backend cannot lower this")


@register_backend
def no_device_memory(graph, inputs):
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")


@register_backend
def no_memory(graph, inputs):
    raise MemoryError


@register_backend
def sleeper(graph, inputs):
    time.sleep(3600)


@register_backend
def killed(graph, inputs):
    os.kill(os.getpid(), 9)


@register_backend
def fails_late(graph, inputs):
    calls = 0

    def run(*args):
        nonlocal calls
        calls += 1
        if calls > 20:
            raise RuntimeError("illegal memory access")
        return graph.forward(*args)

    return run


model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
while True:
    loss = model(torch.randn(8, 16)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

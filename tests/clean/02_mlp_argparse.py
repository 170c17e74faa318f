# A regression MLP with Adam and options on the command line. The loss is read with .item() every ten steps, in the
# training loop and outside of the network.
# Clean: one graph. Nothing should be reported above info.
import argparse
import logging
from itertools import pairwise

import torch
from torch import nn

log = logging.getLogger("mlp")


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch-size", type=int, default=384)
    parser.add_argument("--hidden", type=int, default=384)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--log-every", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


class MLP(nn.Module):
    def __init__(self, inputs, hidden, outputs, depth=3):
        super().__init__()
        sizes = [inputs] + [hidden] * depth
        layers = []
        for a, b in pairwise(sizes):
            layers += [nn.Linear(a, b), nn.LayerNorm(b), nn.GELU()]
        self.body = nn.Sequential(*layers)
        self.out = nn.Linear(hidden, outputs)

    def forward(self, x):
        return self.out(self.body(x))


def main():
    args = parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    torch.manual_seed(args.seed)
    model = MLP(64, args.hidden, 1)
    criterion = nn.MSELoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    weights = torch.randn(64, 1) / 8
    for step in range(args.steps):
        x = torch.randn(args.batch_size, 64)
        y = torch.sin(x @ weights)
        loss = criterion(model(x), y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if step % args.log_every == 0:
            log.info("step %d loss %.5f", step, loss.item())
    print(f"final loss {loss.item():.5f}")


if __name__ == "__main__":
    main()

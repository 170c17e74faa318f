"""A number is read off a tensor inside compiled code

`.item()`, `.tolist()`, `float(t)` and `int(t)` turn a tensor into a Python number. The compiler traces a function
without running it, so there is no number yet: the graph ends here, the tensor is computed, Python reads it, and a
second graph begins behind it.

## What it means

Everything before and after the line is compiled in separate pieces; nothing can be fused across it, and on an
accelerator the host waits for the device at this line in every step. In a loop, or in a function that is called for
each layer, there is one break for each call.

## How it is found

Torch's structured trace lists the break with the user's stack. The cost is the time between the end of the compiled
piece before it and the start of the next one, per step, measured in the diagnosis pass.

## What to do

- Keep the value a tensor: `x.clamp(min=lo)` and `torch.maximum`, `torch.where`, `torch.tanh(x / peak)` all take
  tensors where Python took numbers.
- `.item()` also cut the gradient. A tensor in its place needs `.detach()` to train the same way.
- Where the number is only logged, read it outside the compiled function.
- `torch._dynamo.config.capture_scalar_outputs = True` lets the compiler carry the number symbolically; it helps where
  the number is used in arithmetic and not in an `if`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...model import Finding
from .. import breaks
from ..evidence import Evidence

SLUG = "graph-break-item"
WHY = "A number is read off a tensor here, so the graph ends and Python waits for the value."
HINTS = (
    "keep it a tensor: use torch.where, clamp, maximum or tensor arithmetic instead of Python's",
    "add .detach() to the tensor that takes its place: .item() cut the gradient, and training must stay the same",
    "if it is only logged, read it outside the compiled function",
)


def find(evidence: Evidence) -> Iterator[Finding]:
    """One finding for each line that reads a number."""
    return breaks.findings(evidence, SLUG, WHY, HINTS, fix=_without_item)


def _without_item(group: breaks.BreakGroup, line: str) -> str | None:
    if re.search(r"\b(?:if|while|range|print|elif)\b|f[\"']", line):
        return None  # a tensor in its place would only break the graph in another way
    changed = re.sub(r"\.item\(\)", ".detach()", line)
    return changed if changed != line else None

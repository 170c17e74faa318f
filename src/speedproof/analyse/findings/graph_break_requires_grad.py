"""requires_grad is changed in compiled code

`x.requires_grad_()`, `p.requires_grad = False`, `requires_grad=True` in a tensor's constructor, or `retain_grad()` in
a compiled function. Whether a tensor needs a gradient is fixed when its graph is traced.

## What it means

The graph ends at the line, or the compiler gives up the whole function (`retain_grad`, and any of them in a loop over
parameters).

## How it is found

Torch's structured trace lists the break with its reason and the user's stack; it names the attribute or the method.

## What to do

- Freeze and unfreeze outside the compiled function, before the step: `backbone.requires_grad_(False)`.
- To stop a gradient inside, use `x.detach()` or `with torch.no_grad():`; both compile.
- For the gradient with respect to an input, set `x.requires_grad_()` before the call, or use `torch.func.grad`.
- In place of `retain_grad()` return the tensor and take `torch.autograd.grad` outside, or use `x.register_hook(...)`,
  which compiles.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...model import Finding
from .. import breaks
from ..evidence import Evidence

SLUG = "graph-break-requires-grad"
WHY = "Whether a tensor needs a gradient is changed here, and that is fixed when the graph is traced."
HINTS = (
    "set requires_grad before the call of the compiled function",
    "use detach() or torch.no_grad() to stop gradients inside",
    "return the tensor, or use register_hook, in place of retain_grad()",
)


def find(evidence: Evidence) -> Iterator[Finding]:
    """One finding for each line that changes it."""
    return breaks.findings(evidence, SLUG, WHY, HINTS)

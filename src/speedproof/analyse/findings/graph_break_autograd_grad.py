"""Gradients are taken or inspected inside compiled code

`torch.autograd.grad` in a compiled function (a gradient penalty, a force from an energy, meta learning), or a look at
`tensor.grad_fn`. The compiler makes the backward pass itself and does not trace one inside the forward by default.

## What it means

The graph ends here. What is behind `create_graph=True` needs a second backward, which compiled graphs do not support:
such a script may even fail at `backward()` once the part before the line is compiled.

## How it is found

Torch's structured trace lists the break with its reason and the user's stack; it names `autograd.grad`, `grad_fn` or
the autograd engine.

## What to do

- Compile the network only, and leave the function that takes gradients to eager. With `create_graph=True` leave the
  network of the penalty to eager as well.
- Write it as a function: `torch.func.grad(energy)(positions)` is traced into one graph. A custom `autograd.Function`
  applied straight to its argument loses its backward there, so compare gradients.
- `torch._dynamo.config.trace_autograd_ops = True` (new, off by default) traces `torch.autograd.grad` for tensors made
  in the same function.
- Ask `tensor.requires_grad` instead of `grad_fn`.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...model import Finding
from .. import breaks
from ..evidence import Evidence

SLUG = "graph-break-autograd-grad"
WHY = "Gradients are taken or inspected here, which the compiler does not trace by default."
HINTS = (
    "compile the network and leave the function that takes gradients to eager",
    "or use torch.func.grad, which is traced, and compare the gradients",
    "try torch._dynamo.config.trace_autograd_ops = True for gradients within one function",
)


def find(evidence: Evidence) -> Iterator[Finding]:
    """One finding for each line that takes gradients."""
    return breaks.findings(evidence, SLUG, WHY, HINTS)

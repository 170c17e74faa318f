"""The backward pass or the optimizer stands in compiled code

A whole training step is compiled: `loss.backward()`, `optimizer.step()`, `zero_grad()`, gradient clipping or a
`GradScaler` in one function with the model. The compiler does not trace `backward()` by default, and torch's
optimizers leave the graph on purpose in places.

## What it means

`loss.backward()` ends the graph of the forward pass. The backward of that graph is compiled in any case, whether the
call stands inside or outside, so nothing is gained by having it inside. After it the compiler goes on with what it
finds: dozens of small functions of `torch.optim` and `torch.nn.utils`, each compiled or tried on its own, which costs
compile time and guards. The breaks in those are torch's own; they are listed as notes and need no action.

## How it is found

Torch's structured trace lists the break; it names `Tensor.backward()`, the optimizer, the scaler or the scheduler, or
its innermost frames are in `torch/optim` or the clipping of gradients.

## What to do

Compile the model, or the function that computes the loss, and leave the rest of the step outside:

```python
@torch.compile
def loss_of(x, y):
    return F.cross_entropy(model(x), y)

loss = loss_of(x, y)
loss.backward()
optimizer.step()
optimizer.zero_grad()
```

- An optimizer with many small parameters is better served by `fused=True` or `foreach=True`; `torch.compile` on
  `optimizer.step` is a separate experiment, and needs a learning rate that is a tensor.
- `torch._dynamo.config.trace_autograd_ops = True` traces `backward()` as well; it is new and off by default.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...model import Finding
from .. import breaks
from ..evidence import Evidence

SLUG = "graph-break-training-step"
BACKWARD = "The backward pass is started inside compiled code, which ends the graph; nothing is gained by that."
INTERNAL = "The optimizer and its helpers leave the graph here on purpose; no action is needed for it."
HINTS = (
    "compile the model, or the function that computes the loss, not the whole step",
    "leave backward(), the optimizer, clipping and scaler outside the compiled function",
)
INTERNAL_HINTS = ("compile only the model or the loss: then the compiler does not get here at all",)


def find(evidence: Evidence) -> Iterator[Finding]:
    """A warning for the line of the backward pass, notes for what the optimizer does."""

    def starts_backward(group: breaks.BreakGroup) -> bool:
        words = f"{group.first.reason} {group.first.explanation}"
        line = evidence.sources.line(group.where)
        return bool(
            re.search(r"Tensor\.backward|function `backward`|^backward\(\) with", words) or ".backward(" in line
        )

    yield from breaks.findings(
        evidence, SLUG, BACKWARD, HINTS, only=starts_backward, label="user_code", severity="warning"
    )
    yield from breaks.findings(
        evidence,
        SLUG,
        INTERNAL,
        INTERNAL_HINTS,
        only=lambda group: not starts_backward(group),
        label="benign",
        severity="info",
    )

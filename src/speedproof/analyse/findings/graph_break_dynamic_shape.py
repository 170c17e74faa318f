"""The shape of a result depends on values

`x[mask]`, `nonzero`, `torch.where(cond)` with one argument, `unique`, `masked_select`, `repeat_interleave` with a
tensor, `bincount`, `nms` and `one_hot` without a number of classes return as many elements as the data say. The
compiler knows shapes, not data.

## What it means

The graph ends before the operator, it runs in eager (on an accelerator the host waits for the count), and the rest is
compiled again with a size that varies. Inside a Python loop the whole function is given up.

## How it is found

Torch's structured trace lists the break with its reason and the user's stack; it names a dynamic shape operator, or
slicing and `one_hot` with a shape that depends on data.

## What to do

- Keep the shape and blank what is not wanted. A mean over a mask, for one:

```python
loss = (per_token * mask).sum() / mask.sum().clamp(min=1)   # per_token[mask].mean()
```

- Assign with `torch.where(mask, new, x)`; `x[mask] = 0` with a constant compiles as it is.
- Give sizes: `F.one_hot(labels, num_classes=10)`, `torch.repeat_interleave(x, n, output_size=total)`.
- `torch._dynamo.config.capture_dynamic_output_shape_ops = True` keeps the operator in the graph with an unknown size;
  try it where all that follows works on any size.
- Otherwise do the selection once, outside the compiled function, such as in the loader.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...model import Finding
from .. import breaks
from ..evidence import Evidence

SLUG = "graph-break-dynamic-shape"
WHY = "An operator here returns as many elements as the data say, so the graph ends before it."
HINTS = (
    "keep the full shape and blank with torch.where or a mask that is multiplied in",
    "give the size: one_hot(x, num_classes=n), repeat_interleave(x, n, output_size=total)",
    "set torch._dynamo.config.capture_dynamic_output_shape_ops = True and measure again",
    "select outside the compiled function",
)


def find(evidence: Evidence) -> Iterator[Finding]:
    """One finding for each line with such an operator."""
    return breaks.findings(evidence, SLUG, WHY, HINTS)

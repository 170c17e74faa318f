"""An if, while or assert asks a tensor

The condition of an `if`, `while`, `assert`, `and` or `bool()` is a tensor, or comes from `torch.equal` or
`torch.allclose`. Which way to go is only known when the values are, and the compiler traces without values.

## What it means

The graph ends at the line, Python reads the truth of the tensor (on an accelerator the host waits for the device),
and what follows is compiled as a graph of its own for each way that is taken. Inside a Python loop the compiler
cannot resume: it gives the whole function up, and nothing of it is compiled, without an error or a warning.

## How it is found

Torch's structured trace lists the break with its reason and the user's stack; it names data-dependent branching, a
failed assertion on data, or an operator that returns a Python truth value.

## What to do

- Compute both ways and choose, without a branch:

```python
x = torch.where(x.isfinite(), x, 0.0)              # if x.isnan().any(): x = torch.nan_to_num(x)
scale = torch.clamp(limit / norm, max=1.0)         # if norm > limit: grad = grad * (limit / norm)
```

- In an early exit over stages, compile each stage and leave the loop that asks to eager.
- Where the two ways are truly different work, `torch.cond(pred, true_fn, false_fn, operands)` keeps both in one
  graph; both must return tensors of the same shapes and types.
- A check that never fails in training can go outside the compiled function, or become
  `torch._assert_async(condition)`, which does not wait.
- If the condition only depends on shapes or settings, ask those: `x.shape[0] > 1` is known to the compiler.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...model import Finding
from .. import breaks
from ..evidence import Evidence

SLUG = "graph-break-branch"
WHY = "A branch asks for the value of a tensor here, which is not known while the compiler traces."
HINTS = (
    "compute both ways and choose with torch.where, clamp, maximum or minimum",
    "use torch.cond where the two ways are different work with outputs of the same shape",
    "in a loop with an early exit, compile what is inside the loop and leave the loop to eager",
    "move checks on values out of the compiled function",
)


def find(evidence: Evidence) -> Iterator[Finding]:
    """One finding for each line that branches on a tensor."""
    return breaks.findings(evidence, SLUG, WHY, HINTS)

"""A custom autograd.Function cannot be traced

The compiler traces both `forward` and `backward` of a `torch.autograd.Function` when it meets the call of `apply`.
Something in one of the two is not traceable, or the class uses a feature that is not supported (`jvp`, keyword
arguments of `apply`, the same tensor given twice).

## What it means

The graph ends at `apply`, even where the fault is in `backward`. The Function then runs as in eager, and the pieces
around it are compiled on their own; when they meet other shapes or strides there, they compile again.

## How it is found

Torch's structured trace names `autograd.Function`, or the user's innermost line of the break is in a class whose base
is `Function`. The line that is shown is the one inside the class, where there is one.

## What to do

- Keep numbers tensors. Inside a Function no gradient is recorded, so `.item()` can simply go:

```python
limit = scale * 127            # limit = scale.item() * 127
```

- No branches on values, no numpy, no printing in either method; use `torch.where`.
- A straight-through estimator needs no Function: `x + (torch.round(x) - x).detach()`.
- Leave out `jvp` if it is not used, pass arguments of `apply` by position, and `x.clone()` for the second use of `x`.
- To keep the compiler out of it as a whole, make it an operator: `torch.library.custom_op`, `register_fake` and
  `register_autograd`; it stays in the graph then.
- Compare gradients after any change: a backward that is wrong shows in nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...model import Finding
from .. import breaks
from ..evidence import Evidence

SLUG = "graph-break-autograd-function"
WHY = "The forward or backward of a custom autograd.Function cannot be traced."
HINTS = (
    "keep numbers tensors in forward and backward: no .item(), no branch on values, no numpy",
    "leave out jvp where it is not used, and give the arguments of apply by position",
    "or register it as an operator with torch.library.custom_op and register_autograd",
    "compare the gradients afterwards",
)


def find(evidence: Evidence) -> Iterator[Finding]:
    """One finding for each line in such a class, or that calls one."""
    return breaks.findings(evidence, SLUG, WHY, HINTS, fix=_without_item)


def _without_item(group: breaks.BreakGroup, line: str) -> str | None:
    """A plain assignment keeps the tensor: no gradient is recorded in a Function, so nothing needs to be detached."""
    plain = re.match(r"[\w.]+ = ", line) and not re.search(r"f['\"]|\b(?:range|int|str|round|min|max|math)\b", line)
    return line.replace(".item()", "") if plain and ".item()" in line else None

"""Sparse tensors in compiled code

A sparse tensor (COO, CSR) is an input, a buffer or an intermediate of a compiled function. The compiler does not
trace sparse tensors.

## What it means

A function that is given a sparse tensor is left to eager as a whole; one that makes a sparse tensor ends its graph
there. `nn.Embedding(sparse=True)` is not concerned: it compiles.

## How it is found

Torch's structured trace lists the break with its reason and the user's stack; it names a sparse tensor or the
function that makes one.

## What to do

- Keep the sparse product in a method of its own, so that the sparse tensor is never in the hands of compiled code:

```python
@torch.compiler.disable
def propagate(self, x):
    return torch.sparse.mm(self.adjacency, x)
```

- As an argument, the sparse tensor would still cost the function that passes it on.

- In graph networks, `torch.index_add`, `scatter_reduce` or gathered edges (`x[src]` summed into `dst`) say the same
  in dense terms and compile.
- If the matrix is small, `to_dense()` before the loop is often faster.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...model import Finding
from .. import breaks
from ..evidence import Evidence

SLUG = "graph-break-sparse"
WHY = "A sparse tensor is used here, which the compiler does not trace."
HINTS = (
    "put the sparse product in a method under @torch.compiler.disable that reads the sparse tensor itself",
    "or say it with index_add or scatter_reduce over edges",
    "make small matrices dense once, before the loop",
)


def find(evidence: Evidence) -> Iterator[Finding]:
    """One finding for each line with one."""
    return breaks.findings(evidence, SLUG, WHY, HINTS)

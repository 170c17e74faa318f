"""A tensor's memory or metadata is changed in place

`resize_`, `set_`, `share_memory_`, `x.data = ...` with another type, `data_ptr()`, `untyped_storage()`, `out=` with a
tensor of the wrong shape or layout, or an in-place view (`x.t_()`, `x.unsqueeze_(0)`) of an argument. Plain in-place
arithmetic such as `x.add_(1)` is traced and does not break.

## What it means

The graph ends here, and the call is made by Python. Code that depends on where a tensor lies in memory also keeps the
compiler from reusing memory.

## How it is found

Torch's structured trace lists the break with its reason and the user's stack; it names the method, the `data`
attribute, the pointer or `out=`.

## What to do

- Use the form that returns a new tensor: `x = x.t()`, `x = x.unsqueeze(0)`, `y = x.reshape(shape)`.
- Change types and devices of weights before compiling: `model.to(torch.bfloat16)`, not `w.data = w.data.bfloat16()`
  in `forward`.
- Allocate `out=` buffers with the exact shape, contiguous, or drop `out=`: the compiler plans memory itself.
- Sharing between processes, and pointers for other libraries, belong outside the compiled function.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...model import Finding
from .. import breaks
from ..evidence import Evidence

SLUG = "graph-break-storage"
WHY = "The memory or metadata of a tensor is changed here in a way that a graph cannot hold."
HINTS = (
    "use the form that returns a new tensor: x.t(), x.unsqueeze(0), x.reshape(shape)",
    "convert weights before compiling, not in forward",
    "drop out=, or give it a contiguous tensor of the exact shape",
)


def find(evidence: Evidence) -> Iterator[Finding]:
    """One finding for each line that does so."""
    return breaks.findings(evidence, SLUG, WHY, HINTS)

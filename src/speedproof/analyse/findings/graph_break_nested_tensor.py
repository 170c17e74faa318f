"""Nested tensors in compiled code

A nested tensor of the older, strided layout is made or used. The compiler supports the jagged layout only.

## What it means

The function is left to eager as soon as a strided nested tensor is among its inputs; the networks that it calls may
still be compiled one by one.

## How it is found

Torch's structured trace lists the break with its reason and the user's stack; it names a NestedTensor, or an operator
without support for tracing on a line that says `nested`.

## What to do

- Use the jagged layout, which compiles:

```python
batch = torch.nested.nested_tensor(items, layout=torch.jagged)
```

- Or pad to one tensor with a mask, in the collate function.
- `nn.TransformerEncoder` makes nested tensors in evaluation by itself; `enable_nested_tensor=False` turns that off.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...model import Finding
from .. import breaks
from ..evidence import Evidence

SLUG = "graph-break-nested-tensor"
WHY = "A nested tensor of the strided layout is used here, which the compiler does not support."
HINTS = (
    "use layout=torch.jagged",
    "or pad to one tensor and pass a mask",
    "give nn.TransformerEncoder enable_nested_tensor=False",
)


def find(evidence: Evidence) -> Iterator[Finding]:
    """One finding for each line with one."""
    return breaks.findings(evidence, SLUG, WHY, HINTS)

"""A subclass of Tensor does what the compiler cannot follow

A tensor with a class of its own (quantised tensors, image wrappers, `as_subclass`) overrides a method or an attribute
in a way that is not traced. Plain subclasses with `__torch_function__` compile in torch 2.14.

## What it means

The graph ends at each operation on such a tensor. Where the wrapper only carries metadata that is enough to undo the
gain.

## How it is found

Torch's structured trace lists the break with its reason and the user's stack; it names a tensor subclass or
`__torch_function__`.

## What to do

- Unwrap before the compiled function and wrap after it: `x.as_subclass(torch.Tensor)`.
- Carry metadata beside the tensor instead of on it.
- For a subclass of your own, handle operations in `__torch_dispatch__` with `__tensor_flatten__` and
  `__tensor_unflatten__`; that form is made for the compiler.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...model import Finding
from .. import breaks
from ..evidence import Evidence

SLUG = "graph-break-tensor-subclass"
WHY = "A tensor of a class of its own does something here that is not traced."
HINTS = (
    "pass a plain tensor: x.as_subclass(torch.Tensor) before the call",
    "carry metadata beside the tensor",
    "give your own subclass __tensor_flatten__ and __tensor_unflatten__",
)


def find(evidence: Evidence) -> Iterator[Finding]:
    """One finding for each line with one."""
    return breaks.findings(evidence, SLUG, WHY, HINTS)

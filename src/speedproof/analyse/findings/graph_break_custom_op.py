"""An operator or extension that the compiler knows nothing of

A C++ or CUDA extension is called as a plain function, or a custom operator has no description of its result. The
compiler has to know shape and type of the result without running it.

## What it means

The graph ends at the call, which then runs as it is. The call itself is not slower, but nothing is fused around it,
and on an accelerator the host has to come back for it.

## How it is found

Torch's structured trace lists the break with its reason and the user's stack; it names a function that is not written
in Python and not part of Python or torch, or an operator without a fake implementation.

## What to do

- Register the function as an operator, with a description of the result; it then sits in the graph as a whole:

```python
@torch.library.custom_op("mylib::blur", mutates_args=())
def blur(x: torch.Tensor) -> torch.Tensor:
    return my_extension.blur(x)

@blur.register_fake
def _(x):
    return torch.empty_like(x)
```

- If it is trained through, add `blur.register_autograd(...)`.
- For operators from `TORCH_LIBRARY`, `torch.library.register_fake("mylib::blur")` is enough.
- Check it with `torch.library.opcheck(blur, (x,))`. A newer version of a package may have all of this.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...model import Finding
from .. import breaks
from ..evidence import Evidence

SLUG = "graph-break-custom-op"
WHY = "An operator or extension function is called here whose result the compiler cannot describe."
HINTS = (
    "wrap it with torch.library.custom_op and register_fake",
    "add register_autograd where gradients pass through",
    "look for a newer version of the package that registers its operators",
)


def find(evidence: Evidence) -> Iterator[Finding]:
    """One finding for each line that calls one."""
    return breaks.findings(evidence, SLUG, WHY, HINTS)

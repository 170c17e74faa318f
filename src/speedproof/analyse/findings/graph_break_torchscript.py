"""TorchScript inside compiled code

A module made by `torch.jit.script`, `torch.jit.trace` or `torch.jit.freeze` is called in a compiled function, or made
in it. TorchScript has a runtime of its own that the compiler does not look into.

## What it means

The scripted part stays as it is, and a scripted submodule often makes the compiler give up the function that calls
it. Scripted *functions* (`@torch.jit.script` on a `def`) are traced through their Python source and do not break.

## How it is found

Torch's structured trace lists the break with its reason and the user's stack; it names TorchScript or a ScriptModule,
or the innermost frame is in `torch/jit`.

## What to do

- Use the original module, and drop `torch.jit.script`:

```python
self.block = Block(dim)              # torch.jit.script(Block(dim))
```

- For a network that only exists as a saved TorchScript file, leave its call outside the compiled function.
- Compiling and scripting the same network gains nothing: measure them as alternatives.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...model import Finding
from .. import breaks
from ..evidence import Evidence

SLUG = "graph-break-torchscript"
WHY = "A TorchScript module is used here; the compiler does not look into it."
HINTS = (
    "use the original nn.Module in place of the scripted one",
    "call networks that only exist as TorchScript outside the compiled function",
)


def find(evidence: Evidence) -> Iterator[Finding]:
    """One finding for each line that calls one."""
    return breaks.findings(evidence, SLUG, WHY, HINTS)

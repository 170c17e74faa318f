"""A print in compiled code

`print`, `pprint` or a write to `sys.stdout` in a function that is compiled. The compiler cannot print at the right
moment from inside a graph, so it ends the graph there.

## What it means

Each print cuts the function in two, also where it only prints a shape. In a loop, a `with` or a `try` block the whole
function is left to eager. On an accelerator, printing a tensor waits for the device as well.

## How it is found

Torch's structured trace names the builtin `print`, or a write to a stream on a line that mentions stdout or stderr.

## What to do

- Take it out, or print what the compiled function returns.
- For prints that are wanted in eager runs only, ask first. This leaves no break, and prints nothing once compiled:

```python
if not torch.compiler.is_compiling():
    print(x.shape)
```

- Do not follow torch's own hint to make `print` reorderable: in torch 2.14 the prints of modules below the compiled
  one are then lost, without a word.
- To look at values in a compiled run, return them, or compile without the part in question.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...model import Finding
from .. import breaks
from ..evidence import Evidence

SLUG = "graph-break-print"
WHY = "Something is printed here, which a graph cannot do, so it ends."
HINTS = (
    "take the print out, or print what the compiled function returns",
    "keep it for eager runs only: if not torch.compiler.is_compiling(): print(...)",
    "do not make print reorderable, as torch's hint says: prints of inner modules are lost then",
)


def find(evidence: Evidence) -> Iterator[Finding]:
    """One finding for each line that prints."""
    return breaks.findings(evidence, SLUG, WHY, HINTS, fix=breaks.unless_compiling(evidence, r"p?print"))

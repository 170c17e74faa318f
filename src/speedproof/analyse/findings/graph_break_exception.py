"""An exception leaves compiled code

An exception was raised while the compiler traced the function, and it found no handler for it there, or it is of a
form that is not traced. A `raise` that is caught in the same function compiles in torch 2.14.

## What it means

The function is left to eager as a whole, so that the exception comes as it would without the compiler. Where it is
part of normal work (end of data, a missing key, a shape that is tried), nothing of the function is ever compiled.

## How it is found

Torch's structured trace lists the break with its reason and the user's stack; it speaks of an observed exception or
of how exceptions are built. Formatting a tensor (`f"{x.mean():.3f}"`) is told in the same way.

## What to do

- Decide with a condition on shapes and settings instead of an exception:

```python
if name in self.heads:               # try: head = self.heads[name]
    x = self.heads[name](x)          # except KeyError: ...
```

- Keep `raise` for errors; checks of arguments can be made before the call of the compiled function.
- Do not format tensors in compiled code; return them and format outside.
- If the script fails here in eager too, mend that first.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...model import Finding
from .. import breaks
from ..evidence import Evidence

SLUG = "graph-break-exception"
WHY = "An exception is raised here while the compiler traces, and nothing in the function catches it."
HINTS = (
    "use a condition in place of an exception in normal work",
    "check arguments before the call of the compiled function",
    "return tensors and format them outside: an f-string with a format needs their values",
)


def find(evidence: Evidence) -> Iterator[Finding]:
    """One finding for each line that raises."""
    return breaks.findings(evidence, SLUG, WHY, HINTS)

"""An object that the compiler cannot build or hand out

A compiled function makes or returns an object for which the compiler has no recipe: a class defined in the function,
a `TypedDict` with optional keys, a pydantic dataclass, closures over tensors, hook handles, weak references. Tuples,
dicts, dataclasses, named tuples and model outputs are fine in torch 2.14.

## What it means

The graph ends before the object is made, or the whole function is left to eager, if the object is alive at some other
break and would have to be carried over it.

## How it is found

Torch's structured trace lists the break with its reason and the user's stack; it names the construction or
reconstruction of an object.

## What to do

- Return tensors, or tuples and dicts of them, and make the object from them outside:

```python
logits, hidden = compiled(x)
return Output(logits=logits, hidden=hidden)
```

- Define classes at the top of a file, not in `forward`.
- If the object is only in the way of another break, mend that break: without it nothing has to be rebuilt.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...model import Finding
from .. import breaks
from ..evidence import Evidence

SLUG = "graph-break-output-type"
WHY = "The compiler cannot build this object, or cannot hand it out of the compiled function."
HINTS = (
    "return tensors, tuples or dicts and make the object outside",
    "define classes at module level",
    "mend other breaks in the function first: without them nothing has to be rebuilt",
)


def find(evidence: Evidence) -> Iterator[Finding]:
    """One finding for each line with such an object."""
    return breaks.findings(evidence, SLUG, WHY, HINTS)

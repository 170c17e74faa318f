"""A generator or iterator that the compiler cannot follow

Generators that are made and used up in one function are traced. Those that come from outside (an argument, a global
`itertools.cycle`, a `DataLoader`), that are advanced with `next()`, or that contain another break, are not.

## What it means

Python's position in a generator cannot be saved, so the compiler leaves the line to eager and often gives up the
function. A loop over a data loader in a compiled function is one of these: nothing of the loop itself is compiled.

## How it is found

Torch's structured trace lists the break with its reason and the user's stack; it names a generator, an iterator or
`itertools`, or an object on the line of a `for` or `next()` that it cannot build.

## What to do

- Pass values, not iterators: `batch = next(batches)` outside, then `compiled(batch)`.
- Loop over the loader outside, and compile what is done for one batch.
- Make a list where the length is fixed: `for block in list(self.blocks())`.
- Group with constants only: `itertools.groupby(items, key=lambda t: t.shape)`, not with tensors as keys.
- If there is another break inside the generator, such as a `.item()`, mend that one first.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...model import Finding
from .. import breaks
from ..evidence import Evidence

SLUG = "graph-break-generator"
WHY = "A generator or iterator is advanced here whose state the compiler cannot follow."
HINTS = (
    "call next() and loop over loaders outside the compiled function",
    "pass lists or tensors instead of iterators",
    "mend other breaks inside the generator first",
)


def find(evidence: Evidence) -> Iterator[Finding]:
    """One finding for each line that advances one."""
    return breaks.findings(evidence, SLUG, WHY, HINTS)

"""A clock is read in compiled code

`time.time()`, `time.perf_counter()`, `time.sleep()`, `datetime.now()` and device events are calls that the compiler
does not trace. In torch 2.14 every one of them breaks the graph; none is frozen at its first value.

## What it means

Two readings around a layer cut the graph twice. The figure is not the layer's time either: the pieces around it are
compiled as separate graphs now, so what is timed is no longer the program that would run without the clock. On an
accelerator, host clocks without a synchronisation measure launches only.

## How it is found

Torch's structured trace lists the break with its reason and the user's stack; it names a builtin of `time` or a
method of `datetime`. A clock inside a `with` block or a class with `__enter__` makes the compiler give up the whole
function.

## What to do

- Take timings outside the compiled function, around its call:

```python
torch.cuda.synchronize(); begin = time.perf_counter()
out = compiled(x)
torch.cuda.synchronize(); print(time.perf_counter() - begin)
```

- For the share of a layer use a profiler: `torch.profiler.record_function("layer")` compiles without a break.
- Left-over timers: delete them, or put `if not torch.compiler.is_compiling():` before them.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...model import Finding
from .. import breaks
from ..evidence import Evidence

SLUG = "graph-break-time"
WHY = "A clock is read here, which the compiler leaves to Python; what it times is then another program."
HINTS = (
    "take timings around the call of the compiled function, after a synchronisation",
    "mark parts with torch.profiler.record_function, which does not break the graph",
    "leave the clock out while compiling: if not torch.compiler.is_compiling(): ...",
)


def find(evidence: Evidence) -> Iterator[Finding]:
    """One finding for each line that reads a clock."""
    return breaks.findings(evidence, SLUG, WHY, HINTS)

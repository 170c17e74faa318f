"""A with block that the compiler cannot enter

The context manager of a `with` statement is not one that the compiler knows: a lock, `contextlib.redirect_stdout`,
anomaly detection, saved-tensor hooks, `FlopCounterMode`, `torch.device(...)`, NVTX ranges, `ExitStack`. Known ones
such as `no_grad`, `autocast`, `record_function`, `nullcontext` and generators under `@contextmanager` are traced.

## What it means

The compiler cannot leave a function in the middle of such a block and come back, so it usually gives up the whole
function. The same holds for any other break inside a `with` or `try` block.

## How it is found

Torch's structured trace lists the break with its reason and the user's stack; it names the context manager, its
`__enter__`, or an object of a block that left the compiled function.

## What to do

- Put the block around the call of the compiled function, not in it:

```python
with torch.autograd.set_detect_anomaly(True):
    loss = compiled(x)
```

- Say it without a block: `torch.zeros(n, device=x.device)` in place of `with torch.device(...)`.
- Take debugging aids (anomaly detection, counters, captured output) out before measuring: they cost time of their
  own.
- For named ranges use `torch.profiler.record_function`.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...model import Finding
from .. import breaks
from ..evidence import Evidence

SLUG = "graph-break-context-manager"
WHY = "The compiler cannot enter this with block."
HINTS = (
    "put the with block around the call of the compiled function",
    "remove debugging aids such as anomaly detection and counters",
    "use torch.profiler.record_function for named ranges",
    "pass device= in place of a device block",
)


def find(evidence: Evidence) -> Iterator[Finding]:
    """One finding for each such block."""
    return breaks.findings(evidence, SLUG, WHY, HINTS)

"""An object is deep-copied in compiled code

`copy.deepcopy` on a tensor, a module, or something that holds one. Plain lists and dicts of numbers are copied by the
compiler without a break.

## What it means

The graph ends here and the copy is made by Python, with all of its memory, in every call. For a module that is every
weight, anew each time.

## How it is found

Torch's structured trace lists the break with its reason and the user's stack; it names `copy.deepcopy`, or the
innermost frame is in `copy.py`.

## What to do

- For a tensor say which copy is meant: `x.clone()` keeps the gradient, `x.detach().clone()` cuts it.
- Copy modules once, in `__init__` or before the loop (teacher and EMA networks), and update their weights under
  `torch.no_grad()`:

```python
self.teacher = copy.deepcopy(self.student).requires_grad_(False)   # in __init__
torch._foreach_lerp_(teacher_params, student_params, 1 - decay)    # after the step
```

- For configurations and states, copy outside the compiled function, or build a new dict.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...model import Finding
from .. import breaks
from ..evidence import Evidence

SLUG = "graph-break-deepcopy"
WHY = "Something that holds tensors is deep-copied here, which the compiler leaves to Python."
HINTS = (
    "for tensors use x.clone(), or x.detach().clone() where no gradient is wanted",
    "copy modules once before the loop, not in forward",
    "copy configurations and states outside the compiled function",
)


def find(evidence: Evidence) -> Iterator[Finding]:
    """One finding for each line that copies."""
    return breaks.findings(evidence, SLUG, WHY, HINTS)

"""A hook is registered or removed in compiled code

`register_forward_hook` on a module inside the compiled function, or a hook on a tensor whose handle is kept outside,
such as in a list. `y.register_hook(fn)` alone compiles.

## What it means

The handle is an object that the compiler cannot hand out, so the function is left to eager as a whole, in every call.

## How it is found

Torch's structured trace lists the break with its reason and the user's stack; it names a RemovableHandle, or the
innermost frame is in `torch/utils/hooks.py`.

## What to do

- Register module hooks once, before the first compiled call. Hooks that come later are not seen by compiled code.
- Drop the handle of a tensor hook if it is never used: `y.register_hook(fn)`, without `handles.append(...)`.
- To get at an activation, return it from `forward`; no hook is needed.
- For gradients of weights, `p.register_post_accumulate_grad_hook(fn)` outside the compiled function works compiled.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...model import Finding
from .. import breaks
from ..evidence import Evidence

SLUG = "graph-break-hook-in-forward"
WHY = "A hook is registered, kept or removed here; the compiler cannot hand out its handle."
HINTS = (
    "register hooks once, before the first compiled call",
    "do not keep handles of tensor hooks in compiled code",
    "return activations from forward instead of catching them with a hook",
)


def find(evidence: Evidence) -> Iterator[Finding]:
    """One finding for each line that handles a hook."""
    return breaks.findings(evidence, SLUG, WHY, HINTS)

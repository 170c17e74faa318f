"""A backward hook on a module keeps the compiler out

`register_full_backward_hook`, `register_full_backward_pre_hook` or `register_backward_hook` was called on a module
inside the compiled network: gradient monitors, visualisation and some clipping or privacy packages do so.

## What it means

The compiler gives up the function that calls such a module, and with it, as a rule, the whole forward: **nothing** is
compiled, without an error or a warning. The hooks do fire and all numbers are right, so it goes unnoticed. One hook on
one layer is enough. A hook on the outermost module alone does no harm.

## How it is found

Torch's structured trace says that module-level backward hooks require compiled autograd (for the old
`register_backward_hook`, that a `grad_fn` was read in `torch/nn/modules/module.py`). The line that is shown is the one
that registered the hook, where the run saw it; otherwise the call of the module.

## What to do

- To watch or change gradients of weights, hook the parameters; that works compiled:

```python
for name, p in model.named_parameters():
    p.register_post_accumulate_grad_hook(lambda p, name=name: monitor(name, p.grad))
```

- Or read `p.grad` after `loss.backward()`, which needs no hook at all.
- For the gradient of an activation, register on the tensor in `forward`: `h.register_hook(fn)` compiles.
- Remove monitors before a long run: keep the handle and call `handle.remove()` before the first compiled call.
- Do not follow torch's own hint to set `compiled_autograd = True`: in torch 2.14 it raises an error for these hooks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ...model import Finding, Place, Sighted
from .. import breaks
from ..evidence import Evidence

SLUG = "graph-break-backward-hook"
WHY = "A backward hook on a module keeps the compiler out of every function that calls it."
HINTS = (
    "hook the parameters instead: p.register_post_accumulate_grad_hook(fn), or p.register_hook(fn)",
    "or read p.grad after loss.backward()",
    "remove monitors before the first compiled call",
    "do not set compiled_autograd = True, as torch's hint says: it raises an error for these hooks",
)
KINDS = ("register_full_backward_hook", "register_full_backward_pre_hook", "register_backward_hook")


def find(evidence: Evidence) -> Iterator[Finding]:
    """One finding for each line that registered such a hook, or else for each line that calls a hooked module."""
    found = list(breaks.findings(evidence, SLUG, WHY, HINTS))
    registered = _registered(evidence)
    if not found or not registered:
        yield from found
        return
    known = [f.cost_ms for f in found if f.cost_ms is not None]
    first = min(found, key=lambda f: ("error", "warning", "info").index(f.severity))
    for where, hooks in registered.items():
        yield replace(
            first,
            where=where,
            count=sum(h.count for h in hooks),
            cost_ms=round(sum(known), 4) if known and len(registered) == 1 else None,
            why=f"{_what(hooks)} is registered here. {first.why}",
            label="user_code",
        )


def _registered(evidence: Evidence) -> dict[Place, list[Sighted]]:
    lines: dict[Place, list[Sighted]] = {}
    for hook in evidence.sighted("hook"):
        if hook.where is not None and hook.detail.get("kind") in KINDS:
            lines.setdefault(hook.where, []).append(hook)
    return lines


def _what(hooks: list[Sighted]) -> str:
    modules = sorted({h.detail.get("module", "") for h in hooks} - {""})
    return "A backward hook" + (f" on {', '.join(modules[:4])}" if modules else "")

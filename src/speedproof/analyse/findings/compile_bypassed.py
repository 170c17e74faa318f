"""The compiled entry is never used

`module.compile()` and `torch.compile(module)` act when the module is called: `module(x)`. Code that calls
`module.forward(x)`, or a method such as `encode()` or `generate()` that does so, runs the plain module. A result of
`torch.compile(module)` that is not kept has no effect either.

## What it means

Nothing is compiled on that path, and nothing says so.

## How it is found

Calls of `forward` from your own code, on a module that the script compiles, are seen in the first eager steps;
requests
whose result is never called are counted over the whole script.

## What to do

- Call the module: `self(x)` instead of `self.forward(x)`.
- Or compile the method that is called: `model.encode = torch.compile(model.encode)`.
- Keep the result: `model = torch.compile(model)`, or use `model.compile()`, which needs no result.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...model import Finding
from ..evidence import Evidence

SLUG = "compile-bypassed"
HINTS = (
    "call the module itself, self(x) or model(x), instead of .forward(x)",
    "or compile the method that is called: model.encode = torch.compile(model.encode)",
)
DROPPED = ("keep the result, model = torch.compile(model), or use model.compile(), which works in place",)


def find(evidence: Evidence) -> Iterator[Finding]:
    """One finding for each line that goes past the compiled entry, and for each request without calls."""
    direct = evidence.sighted("forward_direct")
    for seen in direct:
        name = seen.detail.get("name", "the module")
        why = f"forward() of {name} is called directly here, so what the script compiled for its call is never used."
        fix = _called(evidence.sources.line(seen.where))
        yield Finding(SLUG, "error", seen.where, seen.count, None, why, HINTS, "user_code", fix)
    if not direct:
        yield from _dropped(evidence)


def _dropped(evidence: Evidence) -> Iterator[Finding]:
    observed, anatomy = evidence.ledger.observed, evidence.anatomy
    if observed is None or anatomy is None or observed.log.frames or observed.steps + anatomy.steps_seen < 3:
        return
    for site in anatomy.sites:
        if site.calls == 0:
            why = f"{site.name} is compiled here, and what came out of it is never called."
            yield Finding(SLUG, "error", site.where, 1, None, why, DROPPED, "user_code")


def _called(line: str) -> str | None:
    changed = line.replace(".forward(", "(", 1)
    return changed if changed != line and "super()" not in line else None

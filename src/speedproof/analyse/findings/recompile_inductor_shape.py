"""An operator is compiled anew for every input size

Dynamo left the dimension open, but the code generator needs to know it: adaptive pooling to an output larger than
one,
some interpolations and some reshapes are generated for one size only. Every new size is a compile of the whole graph.

## What it means

A multi-scale or variable-size run recompiles for each size it meets, up to the limit of eight, and goes on in eager
afterwards. A dry run with `backend="eager"` or `"aot_eager"` does not show it.

## How it is found

Torch's structured trace names the guard that failed, for every recompile of the diagnosis pass and of each variant's
warm-up. Recompiles of one function for one cause are one finding; the price of one is taken from a variant that
compiled for real. These guards come from the code generator (`torch/_inductor/lowering.py`), and name
the operator; the line shown is where your code calls it.

## What to do

- Pool to one value (`x.mean((2, 3))`, `adaptive_avg_pool2d(x, 1)`): that needs no size.
- Keep a few sizes only, and let each be compiled once.
- Take the operator out of the compiled part: `torch.compiler.disable` on the small function that calls it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...model import Finding, Place
from .. import recompiles
from ..evidence import Evidence
from ..origin import calls_of

SLUG = "recompile-inductor-shape"
HINTS = (
    "pool to one value instead, such as x.mean((2, 3)): that needs no size",
    "use a few sizes only, so that each is compiled once",
    "or leave this operator in eager: put torch.compiler.disable on a small function around it",
)


def find(evidence: Evidence) -> Iterator[Finding]:
    """One finding for each operator that fixes sizes."""
    met = [g for g in recompiles.groups(evidence) if g.cause.kind == "inductor-shape"]
    if not met:
        yield from _to_come(evidence)
    for group in met:
        if group.cause.kind == "inductor-shape":
            where = _call(evidence, group)
            operator = group.cause.name.strip("_") or "an operator"
            why = f"The code generator compiles {operator} for one input size only, so each new size compiles anew."
            yield recompiles.finding(evidence, group, SLUG, where, why, HINTS, benign=recompiles.few(group, 1))


def _to_come(evidence: Evidence) -> Iterator[Finding]:
    """Operators with open sizes in a captured graph: no variant got as far as to meet them."""
    for seen in evidence.sighted("specialises"):
        operator = seen.detail.get("op", "an operator")
        why = (
            f"Input sizes vary, and the code generator compiles {operator} for one size only: each new size compiles "
            "anew. Seen in the captured graph; no variant ran long enough to meet it."
        )
        yield Finding(SLUG, "warning", seen.where, seen.count, None, why, HINTS, "user_code")


def _call(evidence: Evidence, group: recompiles.RecompileGroup) -> Place | None:
    """Where the function that was compiled calls the operator, or the file does."""
    name = re.sub("_", "", group.cause.name).lower()
    files = [p.file for p in (group.frame, group.source, *reversed(group.stack)) if p is not None]
    for file in dict.fromkeys(files):
        calls = calls_of(evidence.sources, file, name) if name else []
        if calls:
            inside = [c for c in calls if evidence.sources.function_at(c) is not None]
            return (inside or calls)[0]
    return group.source

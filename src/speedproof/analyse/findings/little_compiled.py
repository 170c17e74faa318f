"""Most of the network is not compiled

Graphs were captured, and they hold a small part of the operations that the network runs. Whatever the compiler
does, it can
only speed up that part.

## What it means

The most that can be gained is bounded by the part that was captured. What comes after a graph break that cannot be
resumed
stays in eager.

## How it is found

The torch calls inside the compiled functions in eager, per step, against the operations of the graphs that ran per
step in
the diagnosis pass.

## What to do

- Mend the graph breaks listed beside this: the first one in the function leaves out the most.
- Or compile the parts that are free of them, one by one.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...model import Finding, Place
from .. import breaks
from ..evidence import Evidence

SLUG = "little-compiled"
SHARE = 0.5
HINTS = (
    "mend the graph breaks listed here: the first one in a function leaves out all that follows",
    "or compile only the parts without breaks, each by its own .compile()",
)


def find(evidence: Evidence) -> Iterator[Finding]:
    """One finding for each compiled function of which less than half was captured."""
    observed = evidence.ledger.observed
    if observed is None or observed.log.graphs == 0 or observed.log.limit_hit:
        return  # nothing at all, or eager after the recompile limit: findings of their own
    calls = {s.detail.get("name"): s.count for s in evidence.sighted("random_still")}
    for eager in evidence.sighted("eager_ops"):
        name = eager.detail.get("name")
        ran = [s for s in evidence.sighted("compiled_ops") if s.detail.get("name") == name]
        steps = max(1, observed.steps - 1)
        if not ran or not eager.steps or steps < 3:
            continue
        in_eager, compiled = eager.count / eager.steps, ran[0].count / max(steps, calls.get(name, 0) or 0)
        if in_eager >= 8 and compiled < SHARE * in_eager:
            why = f"{name} makes about {in_eager:.0f} torch calls a step in eager; its graphs hold {compiled:.0f}."
            yield Finding(SLUG, "warning", _where(evidence), 1, None, why, HINTS, "user_code")


def _where(evidence: Evidence) -> Place | None:
    """The dearest break."""
    known = [g for g in breaks.groups(evidence) if g.where is not None]
    return max(known, key=lambda g: g.cost_ms or 0.0).where if known else None

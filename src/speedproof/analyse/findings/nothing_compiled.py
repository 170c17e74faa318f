"""Nothing is compiled

The script asks for compilation, or a variant was switched in, and not one graph was captured. Compiled and not
compiled
look alike from outside: no error, no warning, the same numbers.

## What it means

The run is an eager run with the guards on top. Any speed-up or slow-down measured for it is noise or overhead.

## How it is found

The diagnosis pass counts the graphs and operations that Dynamo captured, against the torch calls that the same code
makes
in eager. The reason is the graph break that made the compiler give the whole function up, or that nothing went
through the
compiled entry.

## What to do

- See the finding that stands beside this one: a break in a loop, a backward hook, a call past the compiled entry, a
  wrapper
  in the wrong order.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...model import Finding, Place
from .. import breaks
from ..evidence import Evidence

SLUG = "nothing-compiled"


def find(evidence: Evidence) -> Iterator[Finding]:
    """One finding if the script, or the variant that was tried, captured nothing."""
    observed = evidence.ledger.observed
    if observed is None or (observed.steps + observed.log.frames == 0 and not evidence.compiles_itself):
        return
    if observed.log.graphs == 0 and not _crashed(evidence):
        where, reason = _reason(evidence)
        why = f"Dynamo captured 0 graphs: {reason}" + _eager(evidence)
        yield Finding(SLUG, "error", where, 1, None, why, HINTS, "user_code")


HINTS = ("mend what the finding at this line says, then measure again", "until then leave torch.compile out")


def _crashed(evidence: Evidence) -> bool:
    return bool(evidence.sighted("compiled_crash"))


def _reason(evidence: Evidence) -> tuple[Place | None, str]:
    direct = evidence.sighted("forward_direct")
    if direct:
        return direct[0].where, "the script calls forward() itself, past the compiled entry."
    observed = evidence.ledger.observed
    groups = [g for g in breaks.groups(evidence) if g.captured_nothing]
    if groups:
        own = next((g for g in groups if g.where is not None), groups[0])
        return own.where, f"it gave the whole function up ({own.first.reason})."
    sites = evidence.anatomy.sites if evidence.anatomy is not None else ()
    if observed is not None and observed.log.frames == 0:
        where = sites[0].where if sites else None
        return where, "nothing went through the compiled entry."
    return (sites[0].where if sites else None), "it looked at the function and found no operation in it."


def _eager(evidence: Evidence) -> str:
    ops = sum(s.count / max(1, s.steps or 1) for s in evidence.sighted("eager_ops"))
    return f" In eager a step makes about {ops:.0f} torch calls there." if ops else ""
